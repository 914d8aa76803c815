package io.github.tollgaters.spring.config;

import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.spring.metrics.FailureMetrics;
import io.github.tollgaters.spring.metrics.MicrometerRateLimitMetricsRecorder;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;

/** Counts decisions, if there are Micrometer and a registry. */
@AutoConfiguration(
        before = RateLimitAutoConfiguration.class,
        afterName = {
            // Spring Boot 3
            "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration",
            // Spring Boot 4
            "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration"
        })
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean(MeterRegistry.class)
@ConditionalOnProperty(prefix = "tollgate", name = {"enabled", "metrics-enabled"}, havingValue = "true",
        matchIfMissing = true)
public class TollgateMetricsAutoConfiguration {

    /** Makes the configuration. */
    public TollgateMetricsAutoConfiguration() {
    }

    /**
     * Returns the recorder of decisions.
     *
     * @param registry gives the registry, once there is a decision
     * @return the recorder
     */
    @Bean
    @ConditionalOnMissingBean(RateLimitMetricsRecorder.class)
    public RateLimitMetricsRecorder micrometerRateLimitMetricsRecorder(ObjectProvider<MeterRegistry> registry) {
        return new MicrometerRateLimitMetricsRecorder(registry::getObject);
    }

    /**
     * Returns the counters of calls without a decision.
     *
     * @param clients the client, if there is one
     * @return the counters
     */
    @Bean
    @ConditionalOnMissingBean(name = "tollgateFailureMetrics")
    public MeterBinder tollgateFailureMetrics(ObjectProvider<Tollgate> clients) {
        return registry -> clients.ifUnique(tollgate -> new FailureMetrics(tollgate).bindTo(registry));
    }
}
