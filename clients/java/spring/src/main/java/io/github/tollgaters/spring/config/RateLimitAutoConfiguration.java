package io.github.tollgaters.spring.config;

import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.spring.aspect.RateLimitAdvisor;
import io.github.tollgaters.spring.aspect.RateLimitStartCheck;
import io.github.tollgaters.spring.core.RateLimitEnforcer;
import io.github.tollgaters.spring.core.RateLimitPolicyProvider;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.key.DefaultRateLimitKeyResolver;
import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import io.github.tollgaters.spring.metrics.NoOpRateLimitMetricsRecorder;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.support.AnnotationRateLimitPolicyProvider;
import io.github.tollgaters.spring.support.DefaultRateLimitEnforcer;
import io.github.tollgaters.spring.support.KeyResolvers;
import io.github.tollgaters.spring.support.LimitSource;
import io.github.tollgaters.spring.support.RateLimitSwitches;
import io.github.tollgaters.spring.support.TollgateRateLimiter;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.springframework.aop.config.AopConfigUtils;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.SearchStrategy;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.context.annotation.Role;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotationMetadata;

/**
 * Enforces {@link io.github.tollgaters.spring.annotation.RateLimit}. An app replaces each part by a bean of its own.
 */
@AutoConfiguration(after = TollgateAutoConfiguration.class)
@Import(RateLimitAutoConfiguration.Proxies.class)
public class RateLimitAutoConfiguration {

    /** Makes the configuration. */
    public RateLimitAutoConfiguration() {}

    /** Makes sure that Spring makes proxies, also without AspectJ and with {@code spring.aop.auto=false}. */
    static final class Proxies implements ImportBeanDefinitionRegistrar {
        @Override
        public void registerBeanDefinitions(AnnotationMetadata metadata, BeanDefinitionRegistry registry) {
            AopConfigUtils.registerAutoProxyCreatorIfNecessary(registry);
        }
    }

    /**
     * Returns which limits are enforced. It needs no other bean, because the first proxy needs it.
     *
     * @param environment the properties
     * @return the switches
     */
    @Bean
    @ConditionalOnMissingBean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static RateLimitSwitches rateLimitSwitches(Environment environment) {
        Map<String, PolicyProperties> policies = Binder.get(environment)
                .bind("tollgate.policies", Bindable.mapOf(String.class, PolicyProperties.class))
                .orElseGet(Map::of);
        Map<String, Boolean> byName = policies.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().enabled()));
        return new RateLimitSwitches(environment.getProperty("tollgate.enabled", Boolean.class, true), byName);
    }

    /**
     * Returns what puts checks in front of methods. Each context of a hierarchy has one, because Spring does not apply
     * those of the context above.
     *
     * @param switches which limits are enforced
     * @param beans where it finds the enforcer at the first call
     * @return the advisor
     */
    @Bean
    @ConditionalOnMissingBean(
            value = RateLimitAdvisor.class,
            name = "rateLimitAdvisor",
            search = SearchStrategy.CURRENT)
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static RateLimitAdvisor rateLimitAdvisor(RateLimitSwitches switches, BeanFactory beans) {
        return new RateLimitAdvisor(switches, beans);
    }

    /**
     * Returns what checks that every limit is enforced.
     *
     * @param beans the beans of the app
     * @param advisor the advisor, unless the app has one of its own
     * @param keyResolvers the resolvers of keys
     * @param switches which limits are enforced
     * @param properties have the names of filters
     * @return the check
     */
    @Bean
    @ConditionalOnMissingBean(search = SearchStrategy.CURRENT)
    RateLimitStartCheck rateLimitStartCheck(
            ConfigurableListableBeanFactory beans,
            ObjectProvider<RateLimitAdvisor> advisor,
            KeyResolvers keyResolvers,
            RateLimitSwitches switches,
            TollgateProperties properties) {
        Set<String> filters = properties.filters().stream()
                .map(FilterProperties::effectiveName)
                .collect(Collectors.toSet());
        return new RateLimitStartCheck(
                beans, advisor.getIfUnique(), keyResolvers, switches, filters, Set.copyOf(properties.closedNames()));
    }

    /** What says at the start what is limited, and whether the service takes it. */
    @Bean
    @ConditionalOnMissingBean(search = SearchStrategy.CURRENT)
    @ConditionalOnProperty(name = "tollgate.enabled", matchIfMissing = true)
    LimitCheck tollgateLimitCheck(
            ObjectProvider<LimitSource> sources,
            ObjectProvider<TollgateAutoConfiguration.Clients> clients,
            RateLimiter limiter,
            TollgateProperties properties) {
        // Limiters of the app may send other limits, or none.
        TollgateAutoConfiguration.Clients own =
                limiter instanceof TollgateRateLimiter ? clients.getIfAvailable() : null;
        return new LimitCheck(
                () -> sources.orderedStream().iterator(),
                own == null ? "a client or a limiter of the app" : TollgateAutoConfiguration.addressOf(properties),
                own == null ? null : own::make);
    }

    /**
     * Returns what reads limits in annotations.
     *
     * @return the provider
     */
    @Bean
    @ConditionalOnMissingBean(RateLimitPolicyProvider.class)
    RateLimitPolicyProvider rateLimitPolicyProvider() {
        return new AnnotationRateLimitPolicyProvider();
    }

    /**
     * Returns what resolves keys of annotations that name no resolver.
     *
     * @param beans the beans that expressions see
     * @return the resolver
     */
    @Bean("defaultRateLimitKeyResolver")
    @ConditionalOnMissingBean(name = "defaultRateLimitKeyResolver")
    RateLimitKeyResolver defaultRateLimitKeyResolver(BeanFactory beans) {
        return new DefaultRateLimitKeyResolver(beans);
    }

    /**
     * Returns all resolvers of keys.
     *
     * @param byDefault the one for annotations that name none
     * @param resolvers the beans
     * @return the resolvers
     */
    @Bean
    @ConditionalOnMissingBean
    KeyResolvers rateLimitKeyResolvers(
            @Qualifier("defaultRateLimitKeyResolver") RateLimitKeyResolver byDefault,
            ObjectProvider<RateLimitKeyResolver> resolvers) {
        return new KeyResolvers(byDefault, resolvers.orderedStream().toList());
    }

    /**
     * Returns what asks the service.
     *
     * @param tollgate the client
     * @param properties the properties
     * @return the limiter
     */
    @Bean
    @ConditionalOnMissingBean(RateLimiter.class)
    RateLimiter serviceRateLimiter(Tollgate tollgate, TollgateProperties properties) {
        return new TollgateRateLimiter(tollgate, properties::withPrefix);
    }

    /**
     * Returns what decides about calls.
     *
     * @param rateLimiter the limiter
     * @param policyProvider what reads limits
     * @param keyResolvers what resolves keys
     * @param metrics what records decisions, if there is something
     * @param switches which limits are enforced
     * @param beans the beans that expressions see
     * @return the enforcer
     */
    @Bean
    @ConditionalOnMissingBean(RateLimitEnforcer.class)
    RateLimitEnforcer rateLimitEnforcer(
            RateLimiter rateLimiter,
            RateLimitPolicyProvider policyProvider,
            KeyResolvers keyResolvers,
            ObjectProvider<RateLimitMetricsRecorder> metrics,
            RateLimitSwitches switches,
            BeanFactory beans) {
        return new DefaultRateLimitEnforcer(
                rateLimiter,
                policyProvider,
                keyResolvers,
                metrics.getIfAvailable(NoOpRateLimitMetricsRecorder::new),
                switches,
                new BeanFactoryResolver(beans));
    }
}
