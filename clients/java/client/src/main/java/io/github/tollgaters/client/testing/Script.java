package io.github.tollgaters.client.testing;

import io.github.tollgaters.client.CallFailure;
import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.Transport;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What a fake answers, and what it was asked. */
final class Script implements Transport {
    private static final int OK = 200;
    private static final int TOO_MANY_REQUESTS = 429;
    /** The largest figure of the service. */
    private static final long MOST_USED = (1L << 40) - 1;

    private final List<RecordedCall> calls = new ArrayList<>();
    private final Map<String, Outcome> outcomes = new HashMap<>();

    /** What calls under a name get. */
    interface Outcome {
        Reply of(String operation, Map<String, Object> body) throws CallFailure;
    }

    /** Denies; without a time, waiting does not help. */
    static Outcome denial(Duration retryAfter) {
        String time = retryAfter == null ? "" : ",\"retry_after_ms\":" + retryAfter.toMillis();
        return (operation, body) -> operation.equals("count") ? count(body, true, retryAfter)
                : new Reply(TOO_MANY_REQUESTS, Map.of(), bytes("{\"allowed\":false,\"source\":\"store\""
                        + ",\"reason\":\"quota_exceeded\"" + time + "}"));
    }

    /** Answers each call alike. */
    static Outcome answer(Reply reply) {
        return (operation, body) -> operation.equals("count") ? new Reply(OK, Map.of(), reply.body()) : reply;
    }

    static Outcome failure(FailureKind kind) {
        return (operation, body) -> {
            throw new CallFailure(kind, "as the test has said");
        };
    }

    synchronized void set(String name, Outcome outcome) {
        outcomes.put(name, outcome);
    }

    synchronized void forget(String name) {
        outcomes.remove(name);
    }

    synchronized List<RecordedCall> calls() {
        return List.copyOf(calls);
    }

    @Override
    public synchronized Reply send(Request request, Duration timeout) throws CallFailure {
        Map<String, Object> body = SentBody.read(request.body());
        String operation = request.path().substring("/v1/".length());
        long cost = body.get("cost") instanceof Long given ? given : 1;
        Map<String, Object> attributes = attributes(body);
        Object action = operation.equals("count") ? null : attributes.remove("action");
        // The name of a check with limits of its own is their policy.
        String name = action instanceof String text ? text : body.get("policy") instanceof String text ? text : "";
        calls.add(new RecordedCall(operation, name, Map.copyOf(attributes), cost));
        Outcome outcome = operation.equals("renew") || operation.equals("settle") ? null : outcomes.get(name);
        return outcome == null ? admitted(operation, body) : outcome.of(operation, body);
    }

    private static Map<String, Object> attributes(Map<String, Object> body) {
        Map<String, Object> attributes = new HashMap<>();
        if (body.get("attributes") instanceof Map<?, ?> sent) {
            sent.forEach((name, value) -> attributes.put((String) name, value));
        }
        return attributes;
    }

    private Reply admitted(String operation, Map<String, Object> body) {
        return switch (operation) {
            case "renew" -> reply("{\"status\":\"renewed\",\"expires_after_ms\":60000}");
            case "settle" -> reply("{\"status\":\"settled\"}");
            case "reserve" -> reply("{\"allowed\":true,\"source\":\"store\",\"hold\":\"hold-" + calls.size()
                    + "\",\"expires_after_ms\":60000}");
            case "count" -> count(body, false, null);
            default -> reply("{\"allowed\":true,\"source\":\"store\"}");
        };
    }

    /** Answers a count with the fields that the service sends for its operation. */
    private static Reply count(Map<String, Object> body, boolean isDenied, Duration retryAfter) {
        Object operation = body.getOrDefault("operation", "add");
        boolean asks = operation.equals("add") || operation.equals("get");
        boolean isBlocked = isDenied && asks;
        StringBuilder text = new StringBuilder("{\"source\":\"store\"");
        if (asks && body.containsKey("quotas")) {
            text.append(",\"allowed\":").append(!isDenied);
            if (retryAfter != null) {
                text.append(",\"retry_after_ms\":").append(retryAfter.toMillis());
            }
        } else if (asks && isDenied) {
            // A window has no limit: its figure is above each that the app compares it with.
            text.append(",\"used\":").append(MOST_USED);
        }
        if (body.containsKey("block")) {
            text.append(",\"blocked\":").append(isBlocked);
            if (isBlocked && retryAfter != null) {
                text.append(",\"block_after_ms\":").append(retryAfter.toMillis());
            }
        }
        return reply(text.append('}').toString());
    }

    private static Reply reply(String body) {
        return new Reply(OK, Map.of(), bytes(body));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        // There is nothing to close.
    }
}
