package io.github.tollgaters.client;

import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/** Reads answers of the service, or says which failure they are. */
final class Replies {
    /** The reasons of problems with status 503 that are verdicts. */
    private static final Set<String> VERDICTS = Set.of("store_unavailable", "outcome_unknown", "store_full");

    private Replies() {
    }

    /** An answer with the fields that a hold needs. */
    record Reserved(Decision decision, Answer answer) {
    }

    static Reserved reservation(Transport.Reply reply) throws CallFailure {
        Optional<Answer> answer = Answer.read(reply.body());
        if (answer.isEmpty() || answer.get().allowed() == null) {
            throw failureOf(reply, answer);
        }
        return new Reserved(Decision.of(reply.status(), answer.get(), limitHeaders(reply.headers())), answer.get());
    }

    static Count count(Transport.Reply reply) throws CallFailure {
        Optional<Answer> answer = Answer.read(reply.body());
        if (reply.status() != 200 || answer.isEmpty() || answer.get().text("source") == null) {
            throw failureOf(reply, answer);
        }
        return Count.of(answer.get());
    }

    /** An answer to a renewal or a settlement. */
    record Settled(Settlement.Status status, Answer answer) {
    }

    static Settled settlement(Transport.Reply reply) throws CallFailure {
        Optional<Answer> answer = Answer.read(reply.body());
        String status = answer.map(fields -> fields.text("status")).orElse(null);
        if (reply.status() != 200 || status == null) {
            throw failureOf(reply, answer);
        }
        for (Settlement.Status known : Settlement.Status.values()) {
            if (known.name().toLowerCase(Locale.ROOT).equals(status)) {
                return new Settled(known, answer.get());
            }
        }
        throw failureOf(reply, answer);
    }

    private static CallFailure failureOf(Transport.Reply reply, Optional<Answer> answer) {
        int status = reply.status();
        String received = answer.map(fields -> fields.text("detail")).orElse(null);
        String detail = "status " + status + (received == null ? "" : ": " + received);
        if (status >= 500) {
            boolean denies = status == 503 && answer.map(fields -> fields.text("reason")).filter(VERDICTS::contains).isPresent();
            CallFailure.Cause cause = denies ? CallFailure.Cause.DENIES : CallFailure.Cause.RECEIVED;
            return new CallFailure(FailureKind.UNAVAILABLE, detail, cause);
        }
        if (status >= 300) {
            return new CallFailure(FailureKind.REFUSED, detail, CallFailure.Cause.RECEIVED);
        }
        return new CallFailure(FailureKind.INVALID, "status " + status + ", and no answer of the service");
    }

    private static Map<String, String> limitHeaders(Map<String, String> headers) {
        return headers.entrySet().stream().filter(header -> isLimitHeader(header.getKey()))
                .collect(Collectors.toUnmodifiableMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    private static boolean isLimitHeader(String name) {
        return name.equals("ratelimit") || name.startsWith("ratelimit-") || name.startsWith("x-ratelimit-")
                || name.equals("retry-after");
    }
}
