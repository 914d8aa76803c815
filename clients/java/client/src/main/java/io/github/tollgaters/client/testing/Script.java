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

    private final List<RecordedCall> calls = new ArrayList<>();
    private final Map<String, Outcome> outcomes = new HashMap<>();

    /** What a call under a name gets: an answer, or a failure. */
    record Outcome(Reply reply, FailureKind failure) {
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
        if (outcome == null) {
            return admitted(operation, body.containsKey("quotas") || action != null);
        }
        if (outcome.failure() != null) {
            throw new CallFailure(outcome.failure(), "as the test has said");
        }
        return operation.equals("count") ? new Reply(OK, Map.of(), outcome.reply().body()) : outcome.reply();
    }

    private static Map<String, Object> attributes(Map<String, Object> body) {
        Map<String, Object> attributes = new HashMap<>();
        if (body.get("attributes") instanceof Map<?, ?> sent) {
            sent.forEach((name, value) -> attributes.put((String) name, value));
        }
        return attributes;
    }

    private Reply admitted(String operation, boolean hasVerdict) {
        String verdict = hasVerdict ? "\"allowed\":true," : "";
        return switch (operation) {
            case "renew" -> reply("{\"status\":\"renewed\",\"expires_after_ms\":60000}");
            case "settle" -> reply("{\"status\":\"settled\"}");
            case "reserve" -> reply("{\"allowed\":true,\"source\":\"store\",\"hold\":\"hold-" + calls.size()
                    + "\",\"expires_after_ms\":60000}");
            default -> reply("{" + verdict + "\"source\":\"store\"}");
        };
    }

    private static Reply reply(String body) {
        return new Reply(OK, Map.of(), body.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() {
        // There is nothing to close.
    }
}
