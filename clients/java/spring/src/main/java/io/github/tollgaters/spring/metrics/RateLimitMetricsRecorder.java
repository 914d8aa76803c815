package io.github.tollgaters.spring.metrics;

import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.time.Duration;

/** Records decisions, and calls without one. */
public interface RateLimitMetricsRecorder {

    /**
     * Records a decision. One that {@link RateLimitDecision#getFailure()} explains was admitted without the service.
     *
     * @param name the name of the annotation, or {@code Class#method}
     * @param policy the limit
     * @param decision the decision
     * @param latency how long it took
     */
    void recordDecision(String name, RateLimitPolicy policy, RateLimitDecision decision, Duration latency);

    /**
     * Records that there was no decision, and that the call was refused therefore.
     *
     * @param name the name of the annotation, or {@code Class#method}
     * @param policy the limit
     * @param latency how long it took
     * @param error why
     */
    void recordError(String name, RateLimitPolicy policy, Duration latency, Throwable error);
}
