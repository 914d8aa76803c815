package io.github.tollgaters.spring.metrics;

import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.time.Duration;

/** A recorder that records nothing, for apps without metrics. */
public final class NoOpRateLimitMetricsRecorder implements RateLimitMetricsRecorder {

    /** Makes a recorder. */
    public NoOpRateLimitMetricsRecorder() {}

    @Override
    public void recordDecision(String name, RateLimitPolicy policy, RateLimitDecision decision, Duration latency) {}

    @Override
    public void recordError(String name, RateLimitPolicy policy, Duration latency, Throwable error) {}
}
