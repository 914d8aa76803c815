package io.github.tollgaters.spring.metrics;

import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Objects;
import java.util.function.Supplier;

/**
 * Counts decisions in a meter registry, under names of its own and under those of the Redis rate limiter starter.
 *
 * <p>Labels are names that the code or the properties of the app have, never a key.
 */
public final class MicrometerRateLimitMetricsRecorder implements RateLimitMetricsRecorder {

    /** The counter of decisions: name, and outcome as allowed, denied, failed_open or failed_closed. */
    public static final String REQUESTS = "tollgate.client.requests";

    /** The timer of decisions: name. */
    public static final String DURATION = "tollgate.client.duration";

    /** The counter of calls without a decision of the service: kind. */
    public static final String FAILURES = "tollgate.client.failures";

    private static final String ALIAS_REQUESTS = "ratelimiter.requests";
    private static final String ALIAS_ERRORS = "ratelimiter.errors";
    private static final String ALIAS_LATENCY = "ratelimiter.evaluate.latency";
    private static final String NAME = "name";
    private static final String SCOPE = "scope";
    private static final String OUTCOME = "outcome";

    private final Supplier<MeterRegistry> registry;

    /**
     * Makes a recorder.
     *
     * @param registry the registry
     */
    public MicrometerRateLimitMetricsRecorder(MeterRegistry registry) {
        this(() -> registry);
        Objects.requireNonNull(registry, "registry");
    }

    /**
     * Makes a recorder that looks its registry up when it first counts, so that the registry is not made too early.
     *
     * @param registry gives the registry
     */
    public MicrometerRateLimitMetricsRecorder(Supplier<MeterRegistry> registry) {
        this.registry = Objects.requireNonNull(registry, "registry");
    }

    @Override
    public void recordDecision(String name, RateLimitPolicy policy, RateLimitDecision decision, Duration latency) {
        boolean failed = decision.getFailure().isPresent();
        String outcome = decision.isAllowed() ? (failed ? "failed_open" : "allowed") : failed ? "failed_closed" : "denied";
        record(name, policy, outcome, latency);
        Counter.builder(ALIAS_REQUESTS)
                .description("Decisions, under the name of the Redis rate limiter starter")
                .tag(NAME, label(name))
                .tag(SCOPE, label(policy.getScope()))
                .tag(OUTCOME, decision.isAllowed() ? "allowed" : "blocked")
                .register(registry.get())
                .increment();
    }

    @Override
    public void recordError(String name, RateLimitPolicy policy, Duration latency, Throwable error) {
        record(name, policy, "failed_closed", latency);
        Counter.builder(ALIAS_ERRORS)
                .description("Requests without a decision, under the name of the Redis rate limiter starter")
                .tag(NAME, label(name))
                .tag(SCOPE, label(policy.getScope()))
                .tag("exception", error == null ? "unknown" : label(error.getClass().getSimpleName()))
                .register(registry.get())
                .increment();
    }

    private void record(String name, RateLimitPolicy policy, String outcome, Duration latency) {
        Counter.builder(REQUESTS)
                .description("Decisions")
                .tag(NAME, label(name))
                .tag(OUTCOME, outcome)
                .register(registry.get())
                .increment();
        Timer.builder(DURATION)
                .description("How long decisions took")
                .tag(NAME, label(name))
                .register(registry.get())
                .record(latency);
        Timer.builder(ALIAS_LATENCY)
                .description("How long decisions took, under the name of the Redis rate limiter starter")
                .tag(NAME, label(name))
                .tag(SCOPE, label(policy.getScope()))
                .register(registry.get())
                .record(latency);
    }

    private static String label(String value) {
        return value == null || value.isBlank() ? "unknown" : value;
    }
}
