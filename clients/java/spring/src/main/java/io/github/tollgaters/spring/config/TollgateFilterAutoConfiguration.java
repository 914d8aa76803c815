package io.github.tollgaters.spring.config;

import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.filter.ServletUrlFilter;
import io.github.tollgaters.spring.filter.UrlFilters;
import io.github.tollgaters.spring.metrics.NoOpRateLimitMetricsRecorder;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import java.util.EnumSet;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Limits URLs, as {@code tollgate.filters} and {@code tollgate.use-algo} say. */
@AutoConfiguration(after = RateLimitAutoConfiguration.class)
@ConditionalOnWebApplication
@ConditionalOnBean({TollgateProperties.class, RateLimiter.class})
public class TollgateFilterAutoConfiguration {

    /** Makes the configuration. */
    public TollgateFilterAutoConfiguration() {
    }

    /**
     * Returns the limits of URLs.
     *
     * @param properties the properties
     * @param beans the beans that expressions see
     * @return the limits
     */
    @Bean
    @ConditionalOnMissingBean
    public UrlFilters tollgateUrlFilters(TollgateProperties properties, BeanFactory beans) {
        return new UrlFilters(properties, beans);
    }

    /** The filter of servlet containers. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    @ConditionalOnClass(jakarta.servlet.Filter.class)
    static class Servlets {

        @Bean
        @ConditionalOnMissingBean(name = "tollgateServletUrlFilter")
        FilterRegistrationBean<ServletUrlFilter> tollgateServletUrlFilter(UrlFilters filters, RateLimiter limiter,
                ObjectProvider<RateLimitMetricsRecorder> recorder, TollgateProperties properties) {
            FilterRegistrationBean<ServletUrlFilter> registration = new FilterRegistrationBean<>(new ServletUrlFilter(
                    filters, limiter, recorder.getIfAvailable(NoOpRateLimitMetricsRecorder::new)));
            registration.setOrder(properties.filterOrder());
            registration.setDispatcherTypes(EnumSet.copyOf(ServletUrlFilter.DISPATCHES));
            registration.setName("tollgateServletUrlFilter");
            registration.setEnabled(!filters.isEmpty());
            return registration;
        }
    }
}
