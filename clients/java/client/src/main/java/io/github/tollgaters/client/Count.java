package io.github.tollgaters.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** The state of a counter after a count. */
public final class Count {
    private final Boolean allowed;
    private final Answer answer;
    private final FailureKind failure;

    private Count(Boolean allowed, Answer answer, FailureKind failure) {
        this.allowed = allowed;
        this.answer = answer;
        this.failure = failure;
    }

    static Count of(Answer answer) {
        return new Count(answer.allowed(), answer, null);
    }

    static Count ofClient(Boolean allowed, FailureKind failure) {
        return new Count(allowed, null, failure);
    }

    /**
     * Says whether the count is within the limits, for adding, or whether the cost would fit, for reading.
     *
     * @return the verdict; absent for a window without a limit and for other operations
     */
    public Optional<Boolean> allowed() {
        return Optional.ofNullable(allowed);
    }

    /**
     * Returns the owner of the counter, {@code NAME:caller}.
     *
     * @return the owner
     */
    public Optional<String> policy() {
        return Figures.text(answer, "policy");
    }

    /**
     * Returns the quota that decided.
     *
     * @return the quota; absent if the call named a window
     */
    public Optional<String> quota() {
        return Figures.text(answer, "quota");
    }

    /**
     * Returns the window that was counted, if the call named one.
     *
     * @return the window as it is written
     */
    public Optional<String> series() {
        return Figures.text(answer, "series");
    }

    /**
     * Returns the limit of the quota that decided.
     *
     * @return units
     */
    public OptionalLong limit() {
        return Figures.number(answer, "limit");
    }

    /**
     * Returns the used units, also past the limit.
     *
     * @return units; absent during an outage of the store
     */
    public OptionalLong used() {
        return Figures.number(answer, "used");
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
     * Returns the time until the window ends.
     *
     * @return the time
     */
    public Optional<Duration> resetAfter() {
        return Figures.milliseconds(answer, "reset_after_ms");
    }

    /**
     * Returns the time to wait, if the count is not allowed.
     *
     * @return the time
     */
    public Optional<Duration> retryAfter() {
        return Figures.milliseconds(answer, "retry_after_ms");
    }

    /**
     * Says whether the key is blocked, for a request with {@link CountRequest#block}.
     *
     * @return whether it is
     */
    public boolean blocked() {
        return answer != null && answer.blocked();
    }

    /**
     * Returns the time until the block ends.
     *
     * @return the time
     */
    public Optional<Duration> blockAfter() {
        return Figures.milliseconds(answer, "block_after_ms");
    }

    /**
     * Returns when the window that was counted began.
     *
     * @return its first millisecond; absent if there is none
     */
    public Optional<Instant> start() {
        return instant("start");
    }

    /**
     * Returns when the window that was counted ends.
     *
     * @return the first millisecond after it; absent if there is none
     */
    public Optional<Instant> end() {
        return instant("end");
    }

    private Optional<Instant> instant(String name) {
        return Optional.ofNullable(answer).flatMap(Answer::window).map(window -> window.number(name)).map(Instant::ofEpochMilli);
    }

    /**
     * Returns where the answer came from, as in {@link Decision#source}.
     *
     * @return the source
     */
    public String source() {
        return answer == null ? "client" : Figures.text(answer, "source").orElse("");
    }

    /**
     * Returns why the service did not answer.
     *
     * @return the kind of the failure; absent if the service answered
     */
    public Optional<FailureKind> failure() {
        return Optional.ofNullable(failure);
    }

    /**
     * Returns the states of all quotas that were counted, if there are several.
     *
     * @return the states; empty for one quota
     */
    public List<Count> quotas() {
        return answer == null ? List.of() : answer.quotas().stream().map(Count::of).toList();
    }

    /** Returns the verdict, the figures and the failure. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Count[source=").append(source());
        allowed().ifPresent(verdict -> text.append(verdict ? ", allowed" : ", denied"));
        if (blocked()) {
            text.append(", blocked");
        }
        quota().ifPresent(quota -> text.append(", quota=").append(quota));
        used().ifPresent(used -> text.append(", used=").append(used));
        failure().ifPresent(kind -> text.append(", failure=").append(kind));
        return text.append(']').toString();
    }
}
