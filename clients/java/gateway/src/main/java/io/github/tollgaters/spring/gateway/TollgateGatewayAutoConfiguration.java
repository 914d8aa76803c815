package io.github.tollgaters.spring.gateway;

import io.github.tollgaters.spring.config.RateLimitAutoConfiguration;
import io.github.tollgaters.spring.config.TollgateProperties;
import io.github.tollgaters.spring.metrics.NoOpRateLimitMetricsRecorder;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.cloud.gateway.config.GatewayProperties;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.cloud.gateway.route.RouteDefinitionLocator;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Fallback;

/**
 * Makes a {@code RateLimiter} for Spring Cloud Gateway.
 *
 * <p>It is the default of the gateway only if there is no other one: next to {@code RedisRateLimiter}, a route names
 * {@code tollgateRateLimiter}.
 */
@AutoConfiguration(
        after = RateLimitAutoConfiguration.class,
        afterName = "org.springframework.cloud.gateway.config.GatewayRedisAutoConfiguration",
        // Its filter RequestRateLimiter needs a RateLimiter.
        beforeName = "org.springframework.cloud.gateway.config.GatewayAutoConfiguration")
@ConditionalOnClass(RateLimiter.class)
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnProperty(name = "spring.cloud.gateway.server.webflux.enabled", matchIfMissing = true)
public class TollgateGatewayAutoConfiguration {

    /** Creates the configuration. */
    public TollgateGatewayAutoConfiguration() {}

    @Bean
    @Fallback
    @ConditionalOnMissingBean
    TollgateRateLimiter tollgateRateLimiter(
            io.github.tollgaters.spring.core.RateLimiter limiter,
            TollgateProperties properties,
            ObjectProvider<RateLimitMetricsRecorder> recorders,
            ConfigurationService configurationService) {
        RateLimitMetricsRecorder recorder = recorders.getIfAvailable(NoOpRateLimitMetricsRecorder::new);
        return new TollgateRateLimiter(limiter, properties, recorder, configurationService);
    }

    @Bean
    RemovedArguments tollgateRemovedArguments(
            ObjectProvider<TollgateRateLimiter> limiters,
            ObjectProvider<RouteDefinitionLocator> routes,
            ObjectProvider<GatewayProperties> gateway) {
        return new RemovedArguments(limiters, routes, gateway);
    }

    @Bean
    @ConditionalOnMissingBean
    DenialFilter tollgateDenialFilter() {
        return new DenialFilter();
    }

    /**
     * The default of the gateway if the app has neither a key resolver nor another rate limiter. Such an app would get
     * the gateway's own, by the name of the principal, which denies everybody who is not authenticated.
     */
    @Bean("tollgateIpKeyResolver")
    @ConditionalOnMissingBean(
            value = {RateLimiter.class, KeyResolver.class},
            type = "io.github.bucket4j.distributed.proxy.AsyncProxyManager",
            ignored = TollgateRateLimiter.class)
    ClientAddressKeyResolver defaultKeyResolver() {
        return new ClientAddressKeyResolver();
    }

    /** In other apps, a route names it. */
    @Bean(name = "tollgateIpKeyResolver", autowireCandidate = false)
    @ConditionalOnMissingBean(name = "tollgateIpKeyResolver")
    ClientAddressKeyResolver namedKeyResolver() {
        return new ClientAddressKeyResolver();
    }
}
