package io.github.tollgaters.client;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/**
 * Compares a check with the same request by {@code java.net.http.HttpClient}, which keeps its connections:
 * {@code java -cp ... io.github.tollgaters.client.Latency http://127.0.0.1:8080 [CALLERS]}.
 *
 * <p>The kinds of calls take turns, so that a busy machine slows all of them down.
 */
final class Latency {
    private static final int ROUNDS = 5;
    private static final int WARM_UP_ROUNDS = 2;
    private static final int CALLS = 4_000;

    private Latency() {
    }

    private interface Ask {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        int callers = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 1;
        HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/v1/check")).timeout(Duration.ofSeconds(5))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString("{\"attributes\":{\"action\":\"search\",\"user\":\"alice\"}}")).build();
        Map<String, String> attributes = Map.of("user", "alice");
        try (Tollgate tollgate = Tollgate.builder().url(url).timeout(Duration.ofSeconds(5)).build()) {
            Ask[] kinds = {
                () -> http.send(request, HttpResponse.BodyHandlers.ofByteArray()),
                () -> tollgate.check("search", attributes),
                () -> http.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray()).get(),
                () -> tollgate.checkAsync(CheckRequest.of("search", attributes)).get(),
            };
            String[] names = {"HttpClient.send", "check", "HttpClient.sendAsync", "checkAsync"};
            long[][] times = new long[kinds.length][];
            for (int round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
                for (int kind = 0; kind < kinds.length; kind++) {
                    long[] measured = measure(kinds[kind], callers);
                    times[kind] = round <= WARM_UP_ROUNDS ? measured : concat(times[kind], measured);
                }
            }
            System.out.printf("callers %d, %d calls each%n", callers, ROUNDS * CALLS);
            for (int kind = 0; kind < kinds.length; kind++) {
                Arrays.sort(times[kind]);
                System.out.printf("%-22s p50 %6d us   p99 %6d us%n", names[kind], at(times[kind], 50), at(times[kind], 99));
            }
            if (!tollgate.failures().isEmpty()) {
                throw new IllegalStateException("failures " + tollgate.failures());
            }
        }
    }

    private static long[] measure(Ask ask, int callers) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(callers);
        try {
            Future<?>[] running = new Future<?>[callers];
            long[] times = new long[CALLS];
            int each = CALLS / callers;
            for (int caller = 0; caller < callers; caller++) {
                int first = caller * each;
                running[caller] = threads.submit(() -> {
                    for (int call = first; call < first + each; call++) {
                        long start = System.nanoTime();
                        ask.run();
                        times[call] = System.nanoTime() - start;
                    }
                    return null;
                });
            }
            for (Future<?> one : running) {
                one.get();
            }
            return Arrays.copyOf(times, each * callers);
        } finally {
            threads.shutdown();
        }
    }

    private static long[] concat(long[] one, long[] other) {
        return IntStream.concat(IntStream.range(0, one.length), IntStream.range(one.length, one.length + other.length))
                .mapToLong(at -> at < one.length ? one[at] : other[at - one.length]).toArray();
    }

    private static long at(long[] sorted, int percent) {
        return sorted[(int) ((long) sorted.length * percent / 100)] / 1_000;
    }
}
