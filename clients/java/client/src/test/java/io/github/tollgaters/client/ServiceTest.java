package io.github.tollgaters.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Plays the client with the service that was built, in memory and on a real Redis. */
class ServiceTest {
    private static final Map<String, String> ALICE = Map.of("user", "alice");

    @Test
    void checksPeeksAndDenies() throws Exception {
        try (RealServer service = RealServer.service("--limit", "2/1m@first_hit", "--key", "user");
                Tollgate tollgate = service.client()) {
            Decision first = tollgate.check("search", ALICE);
            assertTrue(first.allowed());
            assertEquals(200, first.status());
            assertEquals(OptionalLong.of(2), first.limit());
            assertEquals(OptionalLong.of(1), first.remaining());
            assertEquals("store", first.source());
            assertTrue(tollgate.peek(CheckRequest.of("search", ALICE)).allowed());
            assertTrue(tollgate.checkAsync(CheckRequest.of("search", ALICE)).get().allowed());
            Decision denied = tollgate.check("search", ALICE);
            assertFalse(denied.allowed());
            assertEquals(429, denied.status());
            assertEquals(Optional.of("quota_exceeded"), denied.reason());
            assertTrue(denied.retryAfter().orElseThrow().compareTo(Duration.ofSeconds(30)) > 0);
            assertTrue(denied.headers().containsKey("ratelimit"), denied.headers().toString());
            assertTrue(tollgate.check("search", Map.of("user", "bob")).allowed());
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @Test
    void admitsExactlyTheLimitToThreadsAndAsynchronousCallsOnRedis() throws Exception {
        try (RealServer redis = RealServer.redis();
                RealServer one = serviceOn(redis);
                RealServer two = serviceOn(redis);
                Tollgate first = one.client();
                Tollgate second = two.client()) {
            ExecutorService threads = Executors.newFixedThreadPool(8);
            List<Future<Decision>> answers = new ArrayList<>();
            for (int call = 0; call < 50; call++) {
                Tollgate tollgate = call % 2 == 0 ? first : second;
                boolean async = call % 4 < 2;
                Callable<Decision> check = () -> tollgate.check("search", ALICE);
                answers.add(async ? tollgate.checkAsync(CheckRequest.of("search", ALICE)) : threads.submit(check));
            }
            int allowed = 0;
            for (Future<Decision> answer : answers) {
                allowed += answer.get().allowed() ? 1 : 0;
                assertFalse(answer.get().source().equals("fallback"), "a busy machine: the store was too slow");
            }
            threads.shutdown();
            assertEquals(20, allowed);
            assertEquals(Map.of(), first.failures());
            assertEquals(Map.of(), second.failures());
        }
    }

    private static RealServer serviceOn(RealServer redis) throws Exception {
        return RealServer.service("--store", redis.address(), "--store-timeout", "5s", "--limit", "20/1h@first_hit", "--key", "user");
    }

    @Test
    void waitsForBudgets() throws Exception {
        try (RealServer service = RealServer.service("--limit", "1/200ms@first_hit", "--key", "user");
                Tollgate tollgate = service.client()) {
            CheckRequest request = CheckRequest.of("search", ALICE);
            assertTrue(tollgate.check(request).allowed());
            assertTrue(tollgate.await(request, Duration.ofSeconds(30)).allowed());
            assertTrue(tollgate.awaitAsync(request, Duration.ofSeconds(30)).get().allowed());
            assertFalse(tollgate.await(request, Duration.ZERO).allowed());
        }
    }

    @Test
    void holdsUnitsAndSettles(@TempDir Path folder) throws Exception {
        String policies = "policies:\n  - { name: render, match: { action: render }, key: [user], quotas: [100/1h@first_hit, 1~in_flight] }\n";
        try (RealServer service = RealServer.service("--config", written(folder, policies));
                Tollgate tollgate = service.client()) {
            ReservationRequest request = ReservationRequest.of("render", ALICE).cost(10).expiresAfter(Duration.ofMillis(600));
            try (Hold hold = tollgate.hold(request)) {
                assertTrue(hold.allowed(), hold.toString());
                // Three times its length: it lives because it is renewed.
                Thread.sleep(1_800);
                assertFalse(hold.isLost());
                Decision second = tollgate.reserve(request).decision();
                assertFalse(second.allowed());
                assertEquals(Optional.of("in_flight_exceeded"), second.reason());
                assertEquals(Optional.of(Settlement.Status.SETTLED), hold.settle(3).status());
            }
            assertEquals(OptionalLong.of(97), tollgate.peek(CheckRequest.of("render", ALICE)).remaining());
            Reservation reservation = tollgate.reserveAsync(request).get();
            assertEquals(Optional.of(Settlement.Status.RENEWED), reservation.renewAsync().get().status());
            assertEquals(Optional.of(Settlement.Status.SETTLED), reservation.releaseAsync().get().status());
            assertEquals(OptionalLong.of(97), tollgate.peek(CheckRequest.of("render", ALICE)).remaining());
            assertEquals("done", tollgate.hold(request.releaseOnError(), hold -> "done"));
            // Its estimate stays charged.
            assertEquals(OptionalLong.of(87), tollgate.peek(CheckRequest.of("render", ALICE)).remaining());
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @Test
    void settlesInAnInterruptedThread(@TempDir Path folder) throws Exception {
        String policies = "policies:\n  - { name: render, match: { action: render }, key: [user], quotas: [1~in_flight] }\n";
        try (RealServer service = RealServer.service("--config", written(folder, policies));
                Tollgate tollgate = service.client()) {
            ReservationRequest request = ReservationRequest.of("render", ALICE);
            try (Hold hold = tollgate.hold(request)) {
                assertTrue(hold.allowed());
                Thread.currentThread().interrupt();
            }
            assertTrue(Thread.interrupted(), "the flag is kept");
            assertTrue(tollgate.reserve(request).allowed(), "the unit is free");
        }
    }

    @Test
    void countsAndTakesLimitsWithTheCall() throws Exception {
        try (RealServer service = RealServer.service("--limit", "5/1m", "--caller-quotas");
                Tollgate tollgate = service.client()) {
            List<String> quotas = List.of("2/1m@first_hit");
            Count count = tollgate.count(CountRequest.add("login", ALICE).quotas(quotas).cost(3));
            assertEquals(Optional.of(false), count.allowed());
            assertEquals(OptionalLong.of(3), count.used());
            assertEquals(Optional.of("login:caller"), count.policy());
            assertTrue(count.end().orElseThrow().isAfter(count.start().orElseThrow()));
            Count bare = tollgate.countAsync(CountRequest.subtract("login", ALICE).window("1m@first_hit").cost(2)).get();
            assertEquals(Optional.empty(), bare.allowed());
            assertEquals(OptionalLong.of(1), bare.used());
            assertEquals(OptionalLong.of(7), tollgate.count(CountRequest.set("login", ALICE).quotas(quotas).used(7)).used());
            assertEquals(OptionalLong.of(0), tollgate.count(CountRequest.reset("login", ALICE).quotas(quotas)).used());
            assertEquals(OptionalLong.of(0), tollgate.count(CountRequest.get("login", ALICE).quotas(quotas)).used());
            CheckRequest own = CheckRequest.of("downloads", ALICE).quotas(List.of("1/1h", "9/1d"));
            assertTrue(tollgate.check(own).allowed());
            Decision denied = tollgate.check(own);
            assertFalse(denied.allowed());
            assertEquals(Optional.of("downloads:caller"), denied.policy());
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @Test
    void blocksAKeyAboveItsLimit() throws Exception {
        try (RealServer service = RealServer.service("--limit", "5/1m", "--caller-quotas");
                Tollgate tollgate = service.client()) {
            CountRequest request = CountRequest.add("login", ALICE).quotas(List.of("1/1m@first_hit")).block(Duration.ofSeconds(30));
            Count first = tollgate.count(request);
            assertFalse(first.blocked());
            assertEquals(Optional.empty(), first.blockAfter());
            Count second = tollgate.count(request);
            assertTrue(second.blocked());
            assertEquals(Optional.of(false), second.allowed());
            Duration left = second.blockAfter().orElseThrow();
            assertTrue(left.compareTo(Duration.ofSeconds(30)) <= 0 && left.compareTo(Duration.ofSeconds(10)) > 0, left.toString());
            assertEquals(OptionalLong.of(2), tollgate.count(request.cost(7)).used());
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @Test
    void refusesACountThatTheServiceDoesNotAllow() throws Exception {
        List<LogLine> lines = new ArrayList<>();
        try (RealServer service = RealServer.service("--limit", "5/1m");
                Tollgate tollgate = Tollgate.builder().url(service.address()).timeout(Duration.ofSeconds(10)).logger(lines::add).build()) {
            Count count = tollgate.count(CountRequest.add("login", ALICE).quotas(List.of("2/1m")));
            assertEquals(Optional.of(FailureKind.REFUSED), count.failure());
            assertEquals(Optional.of(true), count.allowed());
            assertEquals(Map.of(FailureKind.REFUSED, 1L), tollgate.failures());
            assertEquals(System.Logger.Level.ERROR, lines.get(0).level());
            assertFalse(lines.get(0).message().contains("alice"), lines.toString());
        }
    }

    @Test
    void speaksOverAUnixSocket(@TempDir Path folder) throws Exception {
        String socket = "unix:" + folder.resolve("tollgate.sock");
        try (RealServer service = RealServer.serviceAt(socket, "--limit", "1/1m@first_hit", "--key", "user");
                Tollgate tollgate = service.client()) {
            assertEquals(socket, service.address());
            assertTrue(tollgate.check("search", ALICE).allowed());
            assertFalse(tollgate.check("search", ALICE).allowed());
        }
    }

    @Test
    void decidesByItselfWhenTheServiceIsKilledUnderLoad() throws Exception {
        try (RealServer service = RealServer.service("--limit", "1000000/1h", "--key", "user");
                Tollgate tollgate = Tollgate.builder().url(service.address()).timeout(Duration.ofSeconds(2))
                        .onFailure("login", OnFailure.CLOSED).logger(line -> {
                        }).build()) {
            assertTrue(tollgate.check("login", ALICE).allowed());
            List<CompletableFuture<Decision>> answers = new ArrayList<>();
            for (int call = 0; call < 400; call++) {
                if (call == 200) {
                    service.kill();
                }
                answers.add(tollgate.checkAsync(CheckRequest.of("search", ALICE)));
            }
            for (CompletableFuture<Decision> answer : answers) {
                assertTrue(answer.get().allowed());
            }
            Decision login = tollgate.check("login", ALICE);
            assertFalse(login.allowed());
            assertEquals("client", login.source());
            assertEquals(Optional.of(FailureKind.CONNECTION), login.failure());
        }
    }

    private static String written(Path folder, String policies) throws IOException {
        return Files.writeString(folder.resolve("tollgate.yaml"), policies).toString();
    }
}
