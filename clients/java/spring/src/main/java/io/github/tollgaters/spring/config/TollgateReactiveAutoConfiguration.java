package io.github.tollgaters.spring.config;

import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimitExceptionHandler;
import io.github.tollgaters.spring.exception.SingleAnswer;
import io.github.tollgaters.spring.filter.ReactiveUrlFilter;
import io.github.tollgaters.spring.filter.UrlFilters;
import io.github.tollgaters.spring.metrics.NoOpRateLimitMetricsRecorder;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.reactive.ExchangeCaller;
import io.github.tollgaters.spring.reactive.ExchangeFilter;
import io.github.tollgaters.spring.reactive.RateLimitWebExceptionHandler;
import io.github.tollgaters.spring.reactive.ReactiveSupport;
import io.github.tollgaters.spring.reactive.ReactorSupport;
import io.github.tollgaters.spring.web.WebCallerSource;
import java.util.Optional;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication.Type;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.reactive.DispatcherHandler;
import reactor.core.publisher.Mono;

/** Limits methods that return reactive types, and the requests of WebFlux. */
@AutoConfiguration(after = {RateLimitAutoConfiguration.class, TollgateFilterAutoConfiguration.class})
@ConditionalOnClass(Mono.class)
public class TollgateReactiveAutoConfiguration {

    /** Makes the configuration. */
    public TollgateReactiveAutoConfiguration() {}

    /** What only WebFlux needs. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = Type.REACTIVE)
    @ConditionalOnClass(DispatcherHandler.class)
    static class WebFlux {

        /** The support of reactive types, which finds the request in the context of a subscriber. */
        @Bean
        @ConditionalOnMissingBean
        ReactiveSupport tollgateReactiveSupport(
                TollgateProperties properties, ObjectProvider<WebCallerSource> sources) {
            return new ReactorSupport(
                    (context, withUser) -> ExchangeCaller.of(context, withUser, properties.includeHttpHeaders()),
                    sources.orderedStream().toList());
        }

        /** Puts the request there, once the app knows the principal. */
        @Bean
        @ConditionalOnMissingBean
        ExchangeFilter tollgateExchangeFilter(TollgateProperties properties) {
            return new ExchangeFilter(properties.filterOrder());
        }

        /** Answers denied requests of controllers. */
        @Bean
        @ConditionalOnMissingBean
        RateLimitExceptionHandler rateLimitExceptionHandler(TollgateProperties properties) {
            return new RateLimitExceptionHandler(
                    properties.problem(), properties.includeHttpHeaders(), Optional::empty);
        }

        /** Keeps the answer to denials, if the app answers only outages. */
        @Bean
        @ConditionalOnMissingBean
        SingleAnswer.OfDenials rateLimitDenialAnswer(RateLimitExceptionHandler handler, ApplicationContext context) {
            return new SingleAnswer.OfDenials(handler, context);
        }

        /** Keeps the answer to outages, if the app answers only denials. */
        @Bean
        @ConditionalOnMissingBean
        SingleAnswer.OfOutages rateLimitOutageAnswer(RateLimitExceptionHandler handler, ApplicationContext context) {
            return new SingleAnswer.OfOutages(handler, context);
        }

        /** Answers denied requests that no advice is for. */
        @Bean
        @ConditionalOnMissingBean
        RateLimitWebExceptionHandler rateLimitWebExceptionHandler(TollgateProperties properties) {
            return new RateLimitWebExceptionHandler(properties.problem(), properties.includeHttpHeaders());
        }

        /** Limits URLs. */
        @Bean
        @ConditionalOnBean(UrlFilters.class)
        @ConditionalOnMissingBean
        ReactiveUrlFilter tollgateReactiveUrlFilter(
                UrlFilters filters,
                RateLimiter limiter,
                ObjectProvider<RateLimitMetricsRecorder> recorders,
                TollgateProperties properties) {
            RateLimitMetricsRecorder recorder = recorders.getIfAvailable(NoOpRateLimitMetricsRecorder::new);
            return new ReactiveUrlFilter(filters, limiter, recorder, properties.filterOrder());
        }
    }

    /**
     * Returns the support of reactive types in other apps.
     *
     * @param sources find the caller of a thread
     * @return the support
     */
    @Bean
    @ConditionalOnMissingBean
    ReactiveSupport tollgateReactiveSupport(ObjectProvider<WebCallerSource> sources) {
        return new ReactorSupport((context, withUser) -> Mono.empty(), sources.orderedStream().toList());
    }
}
