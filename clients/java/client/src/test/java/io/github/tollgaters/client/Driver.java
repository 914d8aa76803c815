package io.github.tollgaters.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * The client program of docs/clients.md: {@code cargo xtask conformance -- java -cp ... io.github.tollgaters.client.Driver}.
 *
 * <p>It reads an object a line, and answers each with a line. With the argument {@code async}, it makes the asynchronous
 * calls.
 */
final class Driver {
    private static final Executor THREADS = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    private final boolean async;
    private Tollgate client;
    private Reservation current;
    private List<String> lines = new ArrayList<>();

    private Driver(boolean async) {
        this.async = async;
    }

    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver(List.of(arguments).contains("async"));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Json.write(driver.answer(new Fields(Json.read(line))).join()));
        }
        if (driver.client != null) {
            driver.client.close();
        }
    }

    /** The fields of a line; those that are null are absent. */
    private record Fields(Map<String, Object> values) {
        String text(String name) {
            return (String) values.get(name);
        }

        Optional<Long> number(String name) {
            return Optional.ofNullable((Number) values.get(name)).map(Number::longValue);
        }

        boolean flag(String name) {
            return Boolean.TRUE.equals(values.get(name));
        }

        boolean has(String name) {
            return values.get(name) != null;
        }

        Map<String, Object> attributes() {
            return has("attributes") ? fields(values.get("attributes")) : Map.of();
        }

        @SuppressWarnings("unchecked")
        static Map<String, Object> fields(Object value) {
            return (Map<String, Object>) value;
        }

        List<String> texts(String name) {
            return has(name) ? ((List<?>) values.get(name)).stream().map(text -> (String) text).toList() : List.of();
        }
    }

    private CompletableFuture<Object> answer(Fields call) {
        CompletableFuture<Object> answer;
        try {
            answer = start(call);
        } catch (RuntimeException wrong) {
            return CompletableFuture.completedFuture(error(wrong));
        }
        return answer.exceptionally(Driver::error);
    }

    private static Map<String, Object> error(Throwable wrong) {
        Throwable cause = wrong.getCause() != null ? wrong.getCause() : wrong;
        return Map.of("error", String.valueOf(cause.getMessage()));
    }

    private CompletableFuture<Object> start(Fields call) {
        return switch (call.text("do")) {
            case "start" -> now(begin(call));
            case "check" -> decided(async ? client.checkAsync(check(call)) : inThread(() -> client.check(check(call))));
            case "peek" -> decided(async ? client.peekAsync(check(call)) : inThread(() -> client.peek(check(call))));
            case "wait" -> decided(async ? client.awaitAsync(check(call), timeout(call))
                    : inThread(() -> client.await(check(call), timeout(call))));
            case "reserve" -> reserved(async ? client.reserveAsync(reservation(call))
                    : inThread(() -> client.reserve(reservation(call))));
            case "renew" -> settled(async ? current.renewAsync() : inThread(current::renew));
            case "settle" -> settled(async ? current.settleAsync(cost(call)) : inThread(() -> current.settle(cost(call))));
            case "release" -> settled(async ? current.releaseAsync() : inThread(current::release));
            case "hold" -> inThread(() -> hold(call));
            case "count" -> counted(call.has("block"), async ? client.countAsync(count(call)) : inThread(() -> client.count(count(call))));
            case "parallel" -> parallel(call);
            case "failures" -> now(client.failures());
            case "logs" -> now(Map.of("lines", List.copyOf(lines)));
            default -> throw new IllegalArgumentException("there is no " + call.text("do"));
        };
    }

    private static CompletableFuture<Object> now(Object answer) {
        return CompletableFuture.completedFuture(answer);
    }

    private interface Work<T> {
        T run();
    }

    private static <T> CompletableFuture<T> inThread(Work<T> work) {
        return CompletableFuture.supplyAsync(work::run, THREADS);
    }

    private Map<String, Object> begin(Fields call) {
        if (client != null) {
            client.close();
        }
        List<String> written = new ArrayList<>();
        lines = written;
        current = null;
        TollgateBuilder builder = Tollgate.builder().logger(line -> written.add(line.message()));
        if (call.has("url")) {
            builder.url(call.text("url"));
        }
        if (call.has("token")) {
            builder.token(call.text("token"));
        }
        call.number("timeout_ms").ifPresent(time -> builder.timeout(Duration.ofMillis(time)));
        if (call.has("on_failure")) {
            builder.onFailure(word(call.text("on_failure")));
        }
        call.texts("closed").forEach(name -> builder.onFailure(name, OnFailure.CLOSED));
        client = builder.build();
        return Map.of();
    }

    private static OnFailure word(String text) {
        return switch (text) {
            case "open" -> OnFailure.OPEN;
            case "closed" -> OnFailure.CLOSED;
            default -> throw new IllegalArgumentException("there is no " + text);
        };
    }

    private static CheckRequest check(Fields call) {
        CheckRequest request = CheckRequest.of(call.text("name"), call.attributes())
                .trace(call.text("traceparent"), call.text("tracestate"));
        request = call.has("cost") ? request.cost(cost(call)) : request;
        request = call.has("quotas") ? request.quotas(call.texts("quotas")) : request;
        return call.has("on_store_failure") ? request.onStoreFailure(word(call.text("on_store_failure"))) : request;
    }

    private static ReservationRequest reservation(Fields call) {
        ReservationRequest request = ReservationRequest.of(call.text("name"), call.attributes())
                .trace(call.text("traceparent"), call.text("tracestate"));
        request = call.has("cost") ? request.cost(cost(call)) : request;
        request = call.has("units") ? request.units(Math.toIntExact(call.number("units").orElseThrow())) : request;
        Optional<Duration> length = call.number("expires_after_ms").map(Duration::ofMillis);
        request = length.isPresent() ? request.expiresAfter(length.get()) : request;
        return call.flag("release_on_error") ? request.releaseOnError() : request;
    }

    private static CountRequest count(Fields call) {
        String operation = call.has("operation") ? call.text("operation") : "add";
        CountRequest request = CountRequest.of(CountRequest.Operation.valueOf(operation.toUpperCase(Locale.ROOT)),
                call.text("policy"), call.attributes()).trace(call.text("traceparent"), call.text("tracestate"));
        request = call.has("quotas") ? request.quotas(call.texts("quotas")) : request;
        request = call.has("window") ? request.window(call.text("window")) : request;
        request = call.has("cost") ? request.cost(cost(call)) : request;
        request = call.has("used") ? request.used(call.number("used").orElseThrow()) : request;
        request = call.has("block") ? request.block(duration(call.text("block"))) : request;
        return call.has("on_store_failure") ? request.onStoreFailure(word(call.text("on_store_failure"))) : request;
    }

    /** Reads a written duration of one unit, such as 30s. */
    private static Duration duration(String text) {
        long number = Long.parseLong(text.replaceAll("[a-z]+$", ""));
        return switch (text.replaceAll("^[0-9]+", "")) {
            case "ms" -> Duration.ofMillis(number);
            case "s" -> Duration.ofSeconds(number);
            case "m" -> Duration.ofMinutes(number);
            case "h" -> Duration.ofHours(number);
            default -> throw new IllegalArgumentException("there is no duration " + text);
        };
    }

    private static long cost(Fields call) {
        return call.number("cost").orElseThrow();
    }

    private static Duration timeout(Fields call) {
        return Duration.ofMillis(call.number("timeout_ms").orElseThrow());
    }

    private static CompletableFuture<Object> decided(CompletableFuture<Decision> decision) {
        return decision.thenApply(Driver::fields);
    }

    private CompletableFuture<Object> reserved(CompletableFuture<Reservation> reservation) {
        return reservation.thenApply(made -> {
            current = made;
            return fields(made.decision());
        });
    }

    private static CompletableFuture<Object> settled(CompletableFuture<Settlement> settlement) {
        return settlement.thenApply(answer -> {
            Map<String, Object> fields = new LinkedHashMap<>();
            answer.status().ifPresent(status -> fields.put("status", status.name().toLowerCase(Locale.ROOT)));
            answer.failure().ifPresent(kind -> fields.put("failure", kind.toString()));
            return fields;
        });
    }

    private static final class WorkFailed extends Exception {
    }

    private Object hold(Fields call) {
        Hold[] seen = new Hold[1];
        try {
            client.hold(reservation(call), hold -> {
                seen[0] = hold;
                Thread.sleep(call.number("sleep_ms").orElse(0L));
                call.number("settle").ifPresent(hold::settle);
                if (call.flag("fail")) {
                    throw new WorkFailed();
                }
                return null;
            });
        } catch (WorkFailed expected) {
            // As the line has said.
        } catch (RuntimeException wrong) {
            throw wrong;
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
        Map<String, Object> answer = fields(seen[0].decision());
        answer.put("lost", seen[0].isLost());
        return answer;
    }

    private static CompletableFuture<Object> counted(boolean hasBlock, CompletableFuture<Count> count) {
        return count.thenApply(answer -> {
            Map<String, Object> fields = new LinkedHashMap<>();
            answer.allowed().ifPresent(verdict -> fields.put("allowed", verdict));
            put(fields, "limit", answer.limit());
            put(fields, "used", answer.used());
            put(fields, "remaining", answer.remaining());
            putTime(fields, "reset_after_ms", answer.resetAfter());
            putTime(fields, "retry_after_ms", answer.retryAfter());
            if (answer.start().isPresent() && answer.end().isPresent()) {
                fields.put("window", Map.of("start", answer.start().get().toEpochMilli(), "end", answer.end().get().toEpochMilli()));
            }
            if (hasBlock) {
                fields.put("blocked", answer.blocked());
            }
            putTime(fields, "block_after_ms", answer.blockAfter());
            fields.put("source", answer.source());
            answer.failure().ifPresent(kind -> fields.put("failure", kind.toString()));
            return fields;
        });
    }

    private CompletableFuture<Object> parallel(Fields call) {
        List<CompletableFuture<Object>> answers = ((List<?>) call.values().get("calls")).stream()
                .map(one -> answer(new Fields(Fields.fields(one)))).toList();
        return CompletableFuture.allOf(answers.toArray(CompletableFuture[]::new))
                .thenApply(done -> Map.of("answers", answers.stream().map(CompletableFuture::join).toList()));
    }

    private static Map<String, Object> fields(Decision decision) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("allowed", decision.allowed());
        if (decision.status() != 0) {
            fields.put("status", decision.status());
        }
        put(fields, "limit", decision.limit());
        put(fields, "used", decision.used());
        put(fields, "remaining", decision.remaining());
        putTime(fields, "reset_after_ms", decision.resetAfter());
        putTime(fields, "retry_after_ms", decision.retryAfter());
        decision.reason().ifPresent(text -> fields.put("reason", text));
        decision.policy().ifPresent(text -> fields.put("policy", text));
        decision.quota().ifPresent(text -> fields.put("quota", text));
        fields.put("source", decision.source());
        decision.failure().ifPresent(kind -> fields.put("failure", kind.toString()));
        fields.put("headers", decision.headers());
        return fields;
    }

    private static void put(Map<String, Object> fields, String name, OptionalLong value) {
        value.ifPresent(number -> fields.put(name, number));
    }

    private static void putTime(Map<String, Object> fields, String name, Optional<Duration> value) {
        value.ifPresent(time -> fields.put(name, time.toMillis()));
    }
}
