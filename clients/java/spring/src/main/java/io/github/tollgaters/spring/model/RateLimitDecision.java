package io.github.tollgaters.spring.model;

import io.github.tollgaters.client.Decision;
import io.github.tollgaters.client.FailureKind;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;

/** What a limiter decided about a call. */
public final class RateLimitDecision {

    /** The value of {@link #getRemainingTime()} if nothing is known. */
    public static final long REMAINING_TIME_UNKNOWN = -1L;

    private static final int TOO_MANY_REQUESTS = 429;

    private final boolean allowed;
    private final long remainingTime;
    private final Duration retryAfter;
    private final Duration resetAfter;
    private final Answer answer;

    /**
     * Makes a decision of a limiter of your own.
     *
     * @param allowed whether the call is allowed
     * @param remainingTime the milliseconds to wait, 0 if it is allowed, or {@link #REMAINING_TIME_UNKNOWN}
     * @param retryAfter the time to wait, or null
     * @param resetAfter the time after which the whole limit is there again, or null
     */
    public RateLimitDecision(boolean allowed, long remainingTime, Duration retryAfter, Duration resetAfter) {
        this(allowed, remainingTime, retryAfter, resetAfter, Answer.none(allowed));
    }

    /**
     * Returns what the client said.
     *
     * @param decision the decision of the service, or of the client without it
     * @return the same
     */
    public static RateLimitDecision of(Decision decision) {
        boolean isAllowed = decision.allowed();
        Duration retryAfter = isAllowed ? null : decision.retryAfter().orElse(null);
        boolean isKnown = decision.failure().isEmpty() && (isAllowed || retryAfter != null);
        long remainingTime = !isKnown ? REMAINING_TIME_UNKNOWN : isAllowed ? 0 : retryAfter.toMillis();
        Answer answer = new Answer(
                decision.status(),
                decision.limit(),
                decision.remaining(),
                decision.reason(),
                decision.policy(),
                Optional.of(decision.source()),
                decision.failure().map(FailureKind::toString),
                decision.headers());
        return new RateLimitDecision(isAllowed, remainingTime, retryAfter, decision.resetAfter().orElse(null), answer);
    }

    private RateLimitDecision(
            boolean allowed, long remainingTime, Duration retryAfter, Duration resetAfter, Answer answer) {
        if (remainingTime < REMAINING_TIME_UNKNOWN) {
            throw new IllegalArgumentException("a remaining time must be -1 or more, got " + remainingTime);
        }
        requireNotNegative("retryAfter", retryAfter);
        requireNotNegative("resetAfter", resetAfter);
        this.allowed = allowed;
        this.remainingTime = remainingTime;
        this.retryAfter = retryAfter;
        this.resetAfter = resetAfter;
        this.answer = answer;
    }

    /** What the service said beyond the figures of this class. */
    private record Answer(
            int status,
            OptionalLong limit,
            OptionalLong remaining,
            Optional<String> reason,
            Optional<String> policy,
            Optional<String> source,
            Optional<String> failure,
            Map<String, String> headers) {

        static Answer none(boolean allowed) {
            return new Answer(
                    allowed ? 200 : TOO_MANY_REQUESTS,
                    OptionalLong.empty(),
                    OptionalLong.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Map.of());
        }
    }

    private static void requireNotNegative(String name, Duration duration) {
        if (duration != null && duration.isNegative()) {
            throw new IllegalArgumentException(name + " must not be negative, got " + duration);
        }
    }

    /**
     * Says whether the call is allowed.
     *
     * @return whether it is
     */
    public boolean isAllowed() {
        return allowed;
    }

    /**
     * Returns the milliseconds to wait.
     *
     * @return the time; 0 if the call is allowed, {@link #REMAINING_TIME_UNKNOWN} if waiting does not help or if
     *     nothing is known
     */
    public long getRemainingTime() {
        return remainingTime;
    }

    /**
     * Returns the same as {@link #getRemainingTime()}.
     *
     * @return the milliseconds to wait
     */
    public long getRetryAfterMillis() {
        return remainingTime;
    }

    /**
     * Returns the exact time to wait.
     *
     * @return the time; empty if the call is allowed, or if waiting does not help
     */
    public Optional<Duration> getRetryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /**
     * Returns the time after which the whole limit is there again.
     *
     * @return the time, if it is known
     */
    public Optional<Duration> getResetAfter() {
        return Optional.ofNullable(resetAfter);
    }

    /**
     * Returns the status of the answer, such as 429.
     *
     * @return the status
     */
    public int getStatus() {
        return answer.status();
    }

    /**
     * Returns the limit that decided.
     *
     * @return the units, if they are known
     */
    public OptionalLong getLimit() {
        return answer.limit();
    }

    /**
     * Returns what is left of the limit.
     *
     * @return the units, if they are known
     */
    public OptionalLong getRemaining() {
        return answer.remaining();
    }

    /**
     * Returns why the service denied the call.
     *
     * @return the reason, such as {@code quota_exceeded}
     */
    public Optional<String> getReason() {
        return answer.reason();
    }

    /**
     * Returns the policy of the service that decided.
     *
     * @return its name
     */
    public Optional<String> getPolicyName() {
        return answer.policy();
    }

    /**
     * Returns where the counter was, such as {@code store}, or {@code client} if the service did not answer.
     *
     * @return the source
     */
    public Optional<String> getSource() {
        return answer.source();
    }

    /**
     * Returns why the service did not decide, such as {@code timeout}. The call was admitted without it, or refused.
     *
     * @return the kind of the failure
     */
    public Optional<String> getFailure() {
        return answer.failure();
    }

    /**
     * Returns the limit headers of the service.
     *
     * @return the headers, with names in lower case
     */
    public Map<String, String> getHeaders() {
        return answer.headers();
    }

    /**
     * Returns the headers of the service without {@code Retry-After}, which belongs to a denial alone.
     *
     * @return the headers, with names in lower case
     */
    public Map<String, String> getLimitHeaders() {
        Map<String, String> headers = new LinkedHashMap<>(answer.headers());
        headers.remove("retry-after");
        return headers;
    }

    /**
     * Says in words when to try again, such as {@code retry in 5 s}.
     *
     * @return the words
     */
    public String retryHint() {
        return getRetryAfterSeconds().isPresent()
                ? "retry in " + getRetryAfterSeconds().getAsLong() + " s"
                : "waiting does not help";
    }

    /**
     * Returns the time to wait in whole seconds, rounded up, at least 1.
     *
     * @return the seconds; empty if waiting does not help
     */
    public OptionalLong getRetryAfterSeconds() {
        if (retryAfter == null) {
            return OptionalLong.empty();
        }
        long whole = retryAfter.getSeconds() + (retryAfter.getNano() == 0 ? 0 : 1);
        return OptionalLong.of(Math.max(1, whole));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof RateLimitDecision that
                && allowed == that.allowed
                && remainingTime == that.remainingTime
                && Objects.equals(retryAfter, that.retryAfter)
                && Objects.equals(resetAfter, that.resetAfter)
                && answer.equals(that.answer);
    }

    @Override
    public int hashCode() {
        return Objects.hash(allowed, remainingTime, retryAfter, resetAfter, answer);
    }

    @Override
    public String toString() {
        return "RateLimitDecision{allowed=" + allowed
                + ", remainingTime=" + remainingTime
                + ", retryAfter=" + retryAfter
                + ", resetAfter=" + resetAfter
                + answer.failure().map(kind -> ", failure=" + kind).orElse("")
                + '}';
    }
}
