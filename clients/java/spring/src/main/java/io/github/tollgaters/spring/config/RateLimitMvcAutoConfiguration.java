package io.github.tollgaters.spring.config;

import io.github.tollgaters.spring.exception.RateLimitExceptionHandler;
import io.github.tollgaters.spring.exception.SingleAnswer;
import io.github.tollgaters.spring.web.RateLimitExceptionResolver;
import io.github.tollgaters.spring.web.ServletWebCaller;
import io.github.tollgaters.spring.web.WebCallerSource;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication.Type;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.web.servlet.DispatcherServlet;

/** Lets limits see servlet requests, and answers those that are denied. */
@AutoConfiguration(after = RateLimitAutoConfiguration.class)
@ConditionalOnWebApplication(type = Type.SERVLET)
@ConditionalOnClass(DispatcherServlet.class)
public class RateLimitMvcAutoConfiguration {

    /** Makes the configuration. */
    public RateLimitMvcAutoConfiguration() {}

    /**
     * Returns what finds the request of a thread.
     *
     * @param properties say whether responses get limit headers
     * @return the source
     */
    @Bean
    @ConditionalOnMissingBean(name = "servletWebCallerSource")
    WebCallerSource servletWebCallerSource(TollgateProperties properties) {
        return () -> ServletWebCaller.current(properties.includeHttpHeaders());
    }

    /**
     * Returns what answers denied requests of controllers.
     *
     * @param properties say whose body an answer has
     * @return the handler
     */
    @Bean
    @ConditionalOnMissingBean(RateLimitExceptionHandler.class)
    RateLimitExceptionHandler rateLimitExceptionHandler(TollgateProperties properties) {
        return new RateLimitExceptionHandler(
                properties.problem(),
                properties.includeHttpHeaders(),
                () -> ServletWebCaller.current(properties.includeHttpHeaders()));
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

    /**
     * Returns what answers denied requests of other handlers.
     *
     * @param properties say whose body an answer has
     * @return the resolver
     */
    @Bean
    @ConditionalOnMissingBean(RateLimitExceptionResolver.class)
    RateLimitExceptionResolver rateLimitExceptionResolver(TollgateProperties properties) {
        return new RateLimitExceptionResolver(properties.problem(), properties.includeHttpHeaders());
    }
}
