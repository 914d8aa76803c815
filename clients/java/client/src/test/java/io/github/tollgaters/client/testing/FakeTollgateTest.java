package io.github.tollgaters.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.tollgaters.client.CheckRequest;
import io.github.tollgaters.client.Count;
import io.github.tollgaters.client.CountRequest;
import io.github.tollgaters.client.Decision;
import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.Hold;
import io.github.tollgaters.client.OnFailure;
import io.github.tollgaters.client.ReservationRequest;
import io.github.tollgaters.client.Settlement;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class FakeTollgateTest {
    private static final Map<String, Object> ALICE = Map.of("user", "alice");

    @Test
    void admitsDeniesAndFails() throws Exception {
        try (FakeTollgate tollgate = new FakeTollgate(settings -> settings.onFailure("login", OnFailure.CLOSED))) {
            assertTrue(tollgate.check("search", ALICE).allowed());
            tollgate.deny("search", Duration.ofSeconds(30));
            Decision denied = tollgate.checkAsync(CheckRequest.of("search", ALICE).cost(2)).get();
            assertFalse(denied.allowed());
            assertEquals(429, denied.status());
            assertEquals(Optional.of(Duration.ofSeconds(30)), denied.retryAfter());
            tollgate.fail("search", FailureKind.TIMEOUT);
            tollgate.fail("login", FailureKind.TIMEOUT);
            assertTrue(tollgate.check("search", ALICE).allowed());
            assertFalse(tollgate.check("login", ALICE).allowed());
            assertEquals(Map.of(FailureKind.TIMEOUT, 2L), tollgate.failures());
            tollgate.admit("search");
            assertEquals(Optional.empty(), tollgate.check("search", ALICE).failure());
            RecordedCall first = new RecordedCall("check", "search", ALICE, 1);
            RecordedCall second = new RecordedCall("check", "search", ALICE, 2);
            assertEquals(List.of(first, second), tollgate.calls().subList(0, 2));
            assertEquals(5, tollgate.calls().size());
        }
    }

    @Test
    void answersEveryOperation() {
        try (FakeTollgate tollgate = new FakeTollgate()) {
            try (Hold hold = tollgate.hold(ReservationRequest.of("render", ALICE).cost(5))) {
                assertTrue(hold.allowed());
                assertEquals(Optional.of(Settlement.Status.SETTLED), hold.settle(3).status());
            }
            Count count = tollgate.count(CountRequest.add("login", ALICE).quotas(List.of("5/1m")));
            assertEquals(Optional.of(true), count.allowed());
            assertEquals(Optional.empty(), tollgate.count(CountRequest.get("login", ALICE).window("1m")).allowed());
            tollgate.deny("login", null);
            assertEquals(Optional.of(false), tollgate.count(CountRequest.add("login", ALICE).quotas(List.of("5/1m"))).allowed());
            assertFalse(tollgate.check(CheckRequest.of("login", ALICE).quotas(List.of("5/1m"))).allowed());
            assertTrue(tollgate.peek(CheckRequest.of("other", ALICE)).allowed());
            List<String> operations = tollgate.calls().stream().map(RecordedCall::operation).toList();
            assertEquals(List.of("reserve", "settle", "count", "count", "count", "check", "peek"), operations);
            assertEquals(3, tollgate.calls().get(1).cost());
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @Test
    void answersCountsAsTheServiceDoes() {
        Duration pause = Duration.ofSeconds(5);
        List<String> quotas = List.of("5/1m@first_hit");
        try (FakeTollgate tollgate = new FakeTollgate()) {
            Count free = tollgate.count(CountRequest.get("login", ALICE).quotas(quotas).block(pause));
            assertEquals("Count[source=store, allowed]", free.toString());
            tollgate.deny("login", pause);
            Count blocked = tollgate.count(CountRequest.add("login", ALICE).quotas(quotas).block(pause));
            assertEquals("Count[source=store, denied, blocked]", blocked.toString());
            assertEquals(Optional.of(pause), blocked.blockAfter());
            assertEquals(Optional.of(pause), blocked.retryAfter());
            Count windowed = tollgate.count(CountRequest.add("login", ALICE).window("1m"));
            assertEquals(Optional.empty(), windowed.allowed());
            assertEquals(OptionalLong.of((1L << 40) - 1), windowed.used());
            CountRequest reset = CountRequest.reset("login", ALICE).quotas(quotas);
            for (CountRequest other : List.of(reset, reset.block(pause), CountRequest.subtract("login", ALICE).quotas(quotas),
                    CountRequest.set("login", ALICE).quotas(quotas).used(3))) {
                assertEquals("Count[source=store]", tollgate.count(other).toString());
            }
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @Test
    void answersWithHeadersAndFigures() {
        try (FakeTollgate tollgate = new FakeTollgate()) {
            tollgate.answer("search", 403, "{\"allowed\":false,\"limit\":5,\"source\":\"store\"}", Map.of("ratelimit", "r=0"));
            Decision decision = tollgate.check("search", ALICE);
            assertEquals(403, decision.status());
            assertEquals(OptionalLong.of(5), decision.limit());
            assertEquals(Map.of("ratelimit", "r=0"), decision.headers());
        }
    }

    @Test
    void waitsWithoutSleeping() throws Exception {
        try (FakeTollgate tollgate = new FakeTollgate()) {
            tollgate.deny("search", Duration.ofMinutes(1));
            CheckRequest request = CheckRequest.of("search", ALICE);
            assertFalse(tollgate.await(request, Duration.ofMinutes(3)).allowed());
            assertEquals(Duration.ofMinutes(3), tollgate.skipped());
            assertEquals(4, tollgate.calls().size());
            tollgate.admit("search");
            assertTrue(tollgate.awaitAsync(request, Duration.ofMinutes(3)).get().allowed());
        }
    }

    @Test
    void refusesWrongRequestsAsTheClientDoes() {
        try (FakeTollgate tollgate = new FakeTollgate()) {
            assertThrows(IllegalArgumentException.class, () -> tollgate.check("search", Map.of("n", 1)));
            assertEquals(List.of(), tollgate.calls());
        }
    }
}
