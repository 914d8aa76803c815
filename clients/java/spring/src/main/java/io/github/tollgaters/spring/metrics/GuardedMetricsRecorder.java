package io.github.tollgaters.spring.metrics;

import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;

/** Keeps a recorder that fails from failing the calls whose decisions it records. */
public final class GuardedMetricsRecorder implements RateLimitMetricsRecorder {

    private static final Log LOG = LogFactory.getLog(RateLimitMetricsRecorder.class);

    private final RateLimitMetricsRecorder recorder;
    private final AtomicBoolean hasFailed = new AtomicBoolean();

    /**
     * Makes a guard.
     *
     * @param recorder what records, and may fail
     */
    public GuardedMetricsRecorder(RateLimitMetricsRecorder recorder) {
        this.recorder = Objects.requireNonNull(recorder, "the recorder of metrics");
    }

    @Override
    public void recordDecision(String name, RateLimitPolicy policy, RateLimitDecision decision, Duration latency) {
        guarded(() -> recorder.recordDecision(name, policy, decision, latency));
    }

    @Override
    public void recordError(String name, RateLimitPolicy policy, Duration latency, Throwable error) {
        guarded(() -> recorder.recordError(name, policy, latency, error));
    }

    private void guarded(Runnable record) {
        try {
            record.run();
        } catch (RuntimeException e) {
            if (hasFailed.compareAndSet(false, true)) {
                LOG.error("tollgate: metrics are not recorded: " + recorder.getClass().getName()
                        + " failed; later failures are not logged", e);
            }
        }
    }
}
