package io.github.tollgaters.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a client answers without an answer of the service. */
@Timeout(60)
class FailureTest {
    private static final Map<String, String> ALICE = Map.of("user", "alice");

    /** A client of an address at which nothing listens. */
    private static TollgateBuilder builder() {
        return Tollgate.builder().url("http://127.0.0.1:1").timeout(Duration.ofSeconds(10)).logger(line -> {
        });
    }

    @Test
    void aCallWithQuotasSaysByItselfWhatHappens() throws Exception {
        CheckRequest check = CheckRequest.of("search", ALICE).quotas(List.of("5/1m"));
        CountRequest count = CountRequest.add("search", ALICE).quotas(List.of("5/1m"));
        for (OnFailure setting : OnFailure.values()) {
            try (Tollgate tollgate = builder().onFailure(setting).build()) {
                assertEquals(setting == OnFailure.OPEN, tollgate.check(check).allowed());
                for (OnFailure said : OnFailure.values()) {
                    boolean open = said == OnFailure.OPEN;
                    assertEquals(open, tollgate.check(check.onStoreFailure(said)).allowed());
                    assertEquals(open, tollgate.peekAsync(check.onStoreFailure(said)).get().allowed());
                    assertEquals(open, tollgate.await(check.onStoreFailure(said), Duration.ofSeconds(1)).allowed());
                    assertEquals(Optional.of(open), tollgate.count(count.onStoreFailure(said)).allowed());
                }
                assertEquals(Map.of(FailureKind.CONNECTION, 9L), tollgate.failures());
            }
        }
    }
}
