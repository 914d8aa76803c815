package io.github.tollgaters.spring.metrics;

import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.Tollgate;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Locale;
import java.util.Objects;

/** Shows how many calls of a client had no decision of the service, by kind. */
public final class FailureMetrics implements MeterBinder {

    private final Tollgate tollgate;

    /**
     * Makes the metrics of a client.
     *
     * @param tollgate the client
     */
    public FailureMetrics(Tollgate tollgate) {
        this.tollgate = Objects.requireNonNull(tollgate, "tollgate");
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        for (FailureKind kind : FailureKind.values()) {
            FunctionCounter
                    .builder(MicrometerRateLimitMetricsRecorder.FAILURES, tollgate,
                            client -> client.failures().getOrDefault(kind, 0L))
                    .description("Calls without a decision of the service")
                    .tag("kind", kind.name().toLowerCase(Locale.ROOT))
                    .register(registry);
        }
    }
}
