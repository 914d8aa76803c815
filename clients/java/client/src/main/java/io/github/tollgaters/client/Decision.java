package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** The answer to a check. A denial is a decision too, and so is what a client says without an answer. */
public final class Decision {
    private final boolean allowed;
    private final int status;
    private final Answer answer;
    private final FailureKind failure;
    private final Map<String, String> headers;

    private Decision(boolean allowed, int status, Answer answer, FailureKind failure, Map<String, String> headers) {
        this.allowed = allowed;
        this.status = status;
        this.answer = answer;
        this.failure = failure;
        this.headers = headers;
    }

    static Decision of(int status, Answer answer, Map<String, String> limitHeaders) {
        return new Decision(answer.allowed(), status, answer, null, limitHeaders);
    }

    static Decision ofClient(boolean allowed, FailureKind failure) {
        return new Decision(allowed, 0, null, failure, Map.of());
    }

    /**
     * Says whether the request may pass.
     *
     * @return the verdict
     */
    public boolean allowed() {
        return allowed;
    }

    /**
     * Returns the HTTP status of the service's answer: 200 if it admits, and mostly 429 if not.
     *
     * @return the status, or 0 if the client answered by itself
     */
    public int status() {
        return status;
    }

    /**
     * Returns the limit of the quota that decided.
     *
     * @return units; absent if none decided
     */
    public OptionalLong limit() {
        return Figures.number(answer, "limit");
    }

    /**
     * Returns the used units, those of this request included if it was admitted.
     *
     * @return units; absent for a limit in flight, which has {@link #held}
     */
    public OptionalLong used() {
        return Figures.number(answer, "used");
    }

    /**
     * Returns the units in flight, if a limit in flight decided.
     *
     * @return units
     */
    public OptionalLong held() {
        return Figures.number(answer, "held");
    }

    /**
     * Returns the units that are left.
     *
     * @return units
     */
    public OptionalLong remaining() {
        return Figures.number(answer, "remaining");
    }

    /**
     * Returns the time until nothing is used, if nothing is charged until then.
     *
     * @return the time
     */
    public Optional<Duration> resetAfter() {
        return Figures.milliseconds(answer, "reset_after_ms");
    }

    /**
     * Returns the exact time to wait after a denial. If a denial has none, waiting does not help, except with the reason
     * {@code in_flight_exceeded}: ask again after a second.
     *
     * @return the time
     */
    public Optional<Duration> retryAfter() {
        return Figures.milliseconds(answer, "retry_after_ms");
    }

    /**
     * Returns why the request is denied, such as {@code quota_exceeded}.
     *
     * @return the reason
     */
    public Optional<String> reason() {
        return Figures.text(answer, "reason");
    }

    /**
     * Returns the name of the policy that decided.
     *
     * @return the name; absent if none did
     */
    public Optional<String> policy() {
        return Figures.text(answer, "policy");
    }

    /**
     * Returns the quota that decided, such as {@code 5/1m}.
     *
     * @return the quota; absent if none did
     */
    public Optional<String> quota() {
        return Figures.text(answer, "quota");
    }

    /**
     * Returns where the decision came from: {@code store} are the counters, {@code local} is an earlier denial that the
     * service remembered, {@code fallback} is what the policy says for outages of the store, and {@code client} is the
     * client, because the service did not answer.
     *
     * @return the source; empty if the service does not name it
     */
    public String source() {
        return answer == null ? "client" : Figures.text(answer, "source").orElse("");
    }

    /**
     * Returns why the service did not answer.
     *
     * @return the kind of the failure; absent if the service decided
     */
    public Optional<FailureKind> failure() {
        return Optional.ofNullable(failure);
    }

    /**
     * Returns the limit headers of the service's answer, which a server may pass on: {@code ratelimit},
     * {@code ratelimit-*}, {@code x-ratelimit-*} and {@code retry-after}. The policy chooses their format.
     *
     * @return the headers under lower-case names
     */
    public Map<String, String> headers() {
        return headers;
    }

    /** The time after which to ask again, if that helps. */
    Optional<Duration> pause() {
        if (retryAfter().isEmpty() && reason().filter("in_flight_exceeded"::equals).isPresent()) {
            return Optional.of(Duration.ofSeconds(1));
        }
        return retryAfter();
    }

    /** Returns the verdict, the figures and the failure. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Decision[").append(allowed ? "allowed" : "denied");
        text.append(", source=").append(source());
        policy().ifPresent(policy -> text.append(", policy=").append(policy));
        quota().ifPresent(quota -> text.append(", quota=").append(quota));
        used().ifPresent(used -> text.append(", used=").append(used));
        reason().ifPresent(reason -> text.append(", reason=").append(reason));
        retryAfter().ifPresent(time -> text.append(", retryAfter=").append(time));
        failure().ifPresent(kind -> text.append(", failure=").append(kind));
        return text.append(']').toString();
    }
}
