package io.github.tollgaters.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a client answers without an answer of the service. */
@Timeout(60)
class FailureTest {
    private static final Map<String, String> ALICE = Map.of("user", "alice");

    private static final CheckRequest CHECK = CheckRequest.of("search", ALICE);

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

    @Test
    void anErrorOfTheLoggerHidesNoDecision() throws Exception {
        TollgateBuilder settings = builder().logger(line -> {
            throw new AssertionError("a test that fails in its logger");
        });
        try (Tollgate tollgate = settings.build()) {
            assertEquals(Optional.of(FailureKind.CONNECTION), soon(tollgate.checkAsync(CHECK)).failure());
        }
        try (Tollgate tollgate = settings.build()) {
            assertEquals(Optional.of(FailureKind.CONNECTION), tollgate.check(CHECK).failure());
        }
    }

    @Test
    void anErrorOfTheTransportIsAFailure() throws Exception {
        List<LogLine> lines = new ArrayList<>();
        AtomicBoolean broken = new AtomicBoolean(true);
        Transport transport = new Transport() {
            @Override
            public Reply send(Request request, Duration timeout) {
                if (broken.get()) {
                    throw new NoSuchMethodError("key alice");
                }
                return new Reply(200, Map.of(), "{\"allowed\":true,\"source\":\"store\"}".getBytes(StandardCharsets.UTF_8));
            }

            @Override
            public void close() {
                // There is nothing to close.
            }
        };
        try (Tollgate tollgate = builder().maxConnections(1).logger(lines::add).transport(transport).build()) {
            assertEquals(Optional.of(FailureKind.CONNECTION), soon(tollgate.checkAsync(CHECK)).failure());
            assertEquals(Optional.of(FailureKind.CONNECTION), tollgate.check(CHECK).failure());
            assertEquals("tollgate: 1 call had no decision of the service (1 connection); the last one: connection: "
                    + "the transport failed: java.lang.NoSuchMethodError", lines.get(0).message());
            broken.set(false);
            assertEquals(Optional.empty(), soon(tollgate.checkAsync(CHECK)).failure());
        }
    }

    @Test
    void theFirstFailuresOfManyThreadsAreOneLine() throws Exception {
        Background background = new Background(1);
        ExecutorService threads = Executors.newFixedThreadPool(8);
        for (int run = 0; run < 3_000; run++) {
            AtomicInteger lines = new AtomicInteger();
            FailureLog log = new FailureLog(line -> lines.incrementAndGet(), background);
            CyclicBarrier start = new CyclicBarrier(8);
            Callable<Void> fails = () -> {
                start.await();
                for (int failure = 0; failure < 5; failure++) {
                    log.add(new CallFailure(FailureKind.TIMEOUT, "none"), List::of);
                }
                return null;
            };
            for (Future<Void> one : threads.invokeAll(Collections.nCopies(8, fails))) {
                one.get();
            }
            assertEquals(1, lines.get(), "lines in run " + run);
        }
        threads.shutdown();
        background.close();
    }

    private static <T> T soon(CompletableFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }
}
