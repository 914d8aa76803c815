package io.github.tollgaters.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Plays what the cases of conformance do not: times, threads, and answers that are ambiguous. */
@Timeout(60)
class WireTest {
    private static final CheckRequest REQUEST = CheckRequest.of("search", Map.of("user", "alice"));
    private static final String BODY = "{\"allowed\":true,\"source\":\"store\"}";

    private static TollgateBuilder builder(ScriptedServer server) {
        return Tollgate.builder().url(server.url()).timeout(Duration.ofSeconds(10)).logger(line -> {
        });
    }

    private static void eventually(BooleanSupplier holds) throws InterruptedException {
        for (int attempt = 0; attempt < 500 && !holds.getAsBoolean(); attempt++) {
            Thread.sleep(10);
        }
        assertTrue(holds.getAsBoolean());
    }

    private static ScriptedServer silent() throws IOException {
        return new ScriptedServer((socket, request) -> Thread.sleep(60_000));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "HTTP/1.1 200 OK\r\nContent-Length: 33\r\nContent-Length: 33\r\n\r\n" + BODY,
        "HTTP/1.1 200 OK\r\nContent-Length: 33\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n" + BODY + "\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n21\r\n" + BODY + "\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +33\r\n\r\n" + BODY,
        "HTTP/1.1 200 OK\r\nContent-Length: 33\r\n folded\r\n\r\n" + BODY,
        "HTTP/1.1 200 OK\r\nContent-Length : 33\r\n\r\n" + BODY,
        "HTTP/1.1 20 OK\r\nContent-Length: 33\r\n\r\n" + BODY,
        "HTTP/2 200 OK\r\nContent-Length: 33\r\n\r\n" + BODY,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-21\r\n" + BODY + "\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n" + BODY + "\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\n" + BODY,
        "HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\n{\"allowed\":true,\"allowed\":false,\"a\":1}",
    })
    void refusesAnAmbiguousAnswer(String answer) throws Exception {
        try (ScriptedServer server = ScriptedServer.sending(answer); Tollgate tollgate = builder(server).build()) {
            assertEquals(Optional.of(FailureKind.INVALID), tollgate.check(REQUEST).failure());
        }
    }

    @Test
    void readsChunksAndAnAnswerThatEndsWithItsConnection() throws Exception {
        String chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8;a=b\r\n" + BODY.substring(0, 8) + "\r\n19\r\n"
                + BODY.substring(8) + "\r\n0\r\nTrailer: a\r\n\r\n";
        ScriptedServer.Play play = (socket, request) -> {
            ScriptedServer.send(socket, request < 2 ? chunked : "HTTP/1.1 200 OK\r\n\r\n" + BODY);
            if (request == 2) {
                throw new IOException("close");
            }
        };
        try (ScriptedServer server = new ScriptedServer(play); Tollgate tollgate = builder(server).build()) {
            for (int call = 0; call < 3; call++) {
                assertEquals(Optional.empty(), tollgate.check(REQUEST).failure());
            }
            assertEquals(1, server.connections.get());
        }
    }

    @Test
    void takesAFieldOfAnotherTypeForAbsent() throws Exception {
        String answer = ScriptedServer.answer("{\"allowed\":true,\"source\":\"store\",\"limit\":99999999999999999999,\"used\":\"5\","
                + "\"remaining\":1.5,\"reason\":null,\"quotas\":[null,[1],{\"limit\":5}],\"window\":[],\"policy\":\"p\"}");
        try (ScriptedServer server = ScriptedServer.sending(answer); Tollgate tollgate = builder(server).build()) {
            Decision decision = tollgate.check(REQUEST);
            assertTrue(decision.failure().isEmpty() && decision.allowed());
            assertTrue(decision.limit().isEmpty() && decision.used().isEmpty() && decision.remaining().isEmpty());
            assertEquals(Optional.of("p"), decision.policy());
        }
    }

    @Test
    void aTimeBeyondAllReasonDoesNoHarm() throws Exception {
        String body = "{\"allowed\":true,\"source\":\"store\",\"hold\":\"h\",\"expires_after_ms\":9223372036854775807,"
                + "\"status\":\"settled\",\"retry_after_ms\":9223372036854775807,\"reset_after_ms\":-1}";
        try (ScriptedServer server = ScriptedServer.sending(ScriptedServer.answer(body)); Tollgate tollgate = builder(server).build()) {
            try (Hold hold = tollgate.hold(ReservationRequest.of("search", Map.of()))) {
                assertEquals(Optional.of(Duration.ZERO), hold.decision().resetAfter());
                assertEquals(Optional.of(Settlement.Status.SETTLED), hold.settle(1).status());
            }
        }
        try (ScriptedServer server = ScriptedServer.sending(ScriptedServer.answer(body.replace("true", "false")));
                Tollgate tollgate = builder(server).build()) {
            assertFalse(tollgate.await(REQUEST, Duration.ofDays(100_000)).allowed());
            assertFalse(tollgate.awaitAsync(REQUEST, Duration.ofDays(100_000)).get().allowed());
        }
    }

    @Test
    void doesNotKeepAConnectionWithBytesAfterItsAnswer() throws Exception {
        try (ScriptedServer server = ScriptedServer.sending(ScriptedServer.ADMITTED + "HTTP/1.1 200 OK\r\n\r\n");
                Tollgate tollgate = builder(server).build()) {
            assertTrue(tollgate.check(REQUEST).failure().isEmpty());
            assertTrue(tollgate.check(REQUEST).failure().isEmpty());
            assertEquals(2, server.connections.get());
        }
    }

    @Test
    void closesIdleConnectionsByItself() throws Exception {
        Background background = new Background(4);
        try (ScriptedServer server = ScriptedServer.sending(ScriptedServer.ADMITTED)) {
            HttpTransport transport = new HttpTransport(Address.parse(server.url(), "url"), null, background, Duration.ofMillis(200));
            transport.send(new Transport.Request("/v1/check", Map.of(), new byte[0]), Duration.ofSeconds(10));
            assertEquals(1, server.open.get());
            eventually(() -> server.open.get() == 0);
            transport.send(new Transport.Request("/v1/check", Map.of(), new byte[0]), Duration.ofSeconds(10));
            assertEquals(2, server.connections.get());
            transport.close();
        } finally {
            background.close();
        }
    }

    @Test
    void anInterruptEndsACallAndKeepsTheFlag() throws Exception {
        try (ScriptedServer server = silent(); Tollgate tollgate = builder(server).onFailure(OnFailure.CLOSED).build()) {
            CompletableFuture<String> seen = new CompletableFuture<>();
            Thread caller = new Thread(() -> {
                Decision decision = tollgate.check(REQUEST);
                seen.complete(decision.allowed() + " " + decision.failure() + " " + Thread.currentThread().isInterrupted());
            });
            caller.start();
            eventually(() -> server.requests.get() == 1);
            caller.interrupt();
            assertEquals("false Optional[connection] true", seen.get(2, TimeUnit.SECONDS));
        }
    }

    @Test
    void anInterruptedThreadClosesNoIdleConnection() throws Exception {
        try (ScriptedServer server = ScriptedServer.sending(ScriptedServer.ADMITTED); Tollgate tollgate = builder(server).build()) {
            tollgate.check(REQUEST);
            Thread.currentThread().interrupt();
            assertEquals(Optional.of(FailureKind.CONNECTION), tollgate.check(REQUEST).failure());
            assertTrue(Thread.interrupted());
            tollgate.check(REQUEST);
            assertEquals(1, server.connections.get());
        }
    }

    @Test
    void aCallThatWaitedForAConnectionEndsWithinItsOwnTimeout() throws Exception {
        // The first call has the one connection for a part of the time of the second, which is then left without an answer.
        ScriptedServer.Play play = (socket, request) -> {
            if (request == 0) {
                Thread.sleep(1_500);
                ScriptedServer.send(socket, ScriptedServer.ADMITTED);
            } else {
                Thread.sleep(60_000);
            }
        };
        try (ScriptedServer server = new ScriptedServer(play);
                Tollgate tollgate = builder(server).maxConnections(1).timeout(Duration.ofSeconds(2)).build()) {
            CompletableFuture<Decision> first = tollgate.checkAsync(REQUEST);
            long start = System.nanoTime();
            CompletableFuture<Decision> second = tollgate.checkAsync(REQUEST);
            assertEquals(Optional.of(FailureKind.TIMEOUT), second.get().failure());
            long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
            assertTrue(took >= 1_990 && took < 3_200, "took " + took + " ms");
            assertTrue(first.get().failure().isEmpty());
        }
    }

    @Test
    void aShorterTimeoutOnAKeptConnectionIsKept() throws Exception {
        ScriptedServer.Play play = (socket, request) -> {
            if (request > 0) {
                Thread.sleep(60_000);
            }
            ScriptedServer.send(socket, ScriptedServer.ADMITTED);
        };
        Background background = new Background(4);
        try (ScriptedServer server = new ScriptedServer(play)) {
            HttpTransport transport = new HttpTransport(Address.parse(server.url(), "url"), null, background);
            Transport.Request request = new Transport.Request("/v1/check", Map.of(), new byte[0]);
            transport.send(request, Duration.ofSeconds(10));
            long start = System.nanoTime();
            CallFailure failure = assertThrows(CallFailure.class, () -> transport.send(request, Duration.ofMillis(200)));
            assertEquals(FailureKind.TIMEOUT, failure.kind());
            assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(5));
            transport.close();
        } finally {
            background.close();
        }
    }

    @Test
    void closingTheClientEndsEverythingWithinASecond() throws Exception {
        try (ScriptedServer server = silent()) {
            Tollgate tollgate = builder(server).maxConnections(2).build();
            List<CompletableFuture<Decision>> running = new ArrayList<>();
            for (int call = 0; call < 5; call++) {
                running.add(tollgate.checkAsync(REQUEST));
            }
            running.add(tollgate.awaitAsync(REQUEST, Duration.ofHours(1)));
            eventually(() -> server.requests.get() == 2);
            long start = System.nanoTime();
            tollgate.close();
            for (CompletableFuture<Decision> one : running) {
                assertEquals(Optional.of(FailureKind.CONNECTION), one.get(1, TimeUnit.SECONDS).failure());
            }
            assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(1));
            assertEquals(Optional.of(FailureKind.CONNECTION), tollgate.check(REQUEST).failure());
            assertEquals(Optional.of(FailureKind.CONNECTION), tollgate.checkAsync(REQUEST).get().failure());
            eventually(() -> server.open.get() == 0 || server.connections.get() == 2);
            eventually(() -> Thread.getAllStackTraces().keySet().stream().noneMatch(
                    thread -> thread.isAlive() && thread.getName().startsWith("tollgate-") && !thread.isDaemon()));
        }
    }

    @Test
    void closingTheClientEndsAWaitAndARenewal() throws Exception {
        String denied = ScriptedServer.answer("{\"allowed\":false,\"source\":\"store\",\"retry_after_ms\":600000}");
        try (ScriptedServer server = ScriptedServer.sending(denied)) {
            Tollgate tollgate = builder(server).build();
            CompletableFuture<Decision> waiting = tollgate.awaitAsync(REQUEST, Duration.ofHours(1));
            eventually(() -> server.requests.get() == 1);
            assertFalse(waiting.isDone());
            tollgate.close();
            Decision decision = waiting.get(1, TimeUnit.SECONDS);
            assertFalse(decision.allowed());
        }
    }

    @Test
    void aWaitThatIsCancelledAsksNoMore() throws Exception {
        String denied = ScriptedServer.answer("{\"allowed\":false,\"source\":\"store\",\"retry_after_ms\":100}");
        try (ScriptedServer server = ScriptedServer.sending(denied); Tollgate tollgate = builder(server).build()) {
            CompletableFuture<Decision> waiting = tollgate.awaitAsync(REQUEST, Duration.ofHours(1));
            eventually(() -> server.requests.get() == 2);
            waiting.cancel(false);
            Thread.sleep(50);
            int asked = server.requests.get();
            Thread.sleep(400);
            assertEquals(asked, server.requests.get());
        }
    }

    @Test
    void stagesThatBlockStopNoCall() throws Exception {
        try (ScriptedServer server = ScriptedServer.sending(ScriptedServer.ADMITTED);
                Tollgate tollgate = builder(server).maxConnections(2).build()) {
            CountDownLatch end = new CountDownLatch(1);
            CountDownLatch blocked = new CountDownLatch(200);
            for (int call = 0; call < 200; call++) {
                tollgate.checkAsync(REQUEST).thenAccept(decision -> {
                    blocked.countDown();
                    await(end);
                });
            }
            eventually(() -> server.requests.get() >= 66);
            assertTrue(tollgate.check(REQUEST).failure().isEmpty());
            end.countDown();
            assertTrue(blocked.await(20, TimeUnit.SECONDS));
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void logsALineForEachSpanOfTime() throws Exception {
        List<LogLine> lines = Collections.synchronizedList(new ArrayList<>());
        Background background = new Background(1);
        FailureLog log = new FailureLog(lines::add, background, Duration.ofMillis(300));
        for (int failure = 0; failure < 5; failure++) {
            log.add(new CallFailure(FailureKind.TIMEOUT, "none"), List::of);
        }
        assertEquals(1, lines.size());
        eventually(() -> lines.size() == 2);
        assertEquals(Map.of(FailureKind.TIMEOUT, 4L), lines.get(1).failures());
        assertEquals("tollgate: 4 calls had no decision of the service (4 timeout); the last one: timeout: none",
                lines.get(1).message());
        assertEquals(System.Logger.Level.WARNING, lines.get(1).level());
        Thread.sleep(400);
        assertEquals(2, lines.size());
        background.close();
    }
}
