package io.github.tollgaters.spring.config;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.OnFailure;
import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.client.testing.FakeTollgate;
import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.aspect.RateLimitAdvisor;
import io.github.tollgaters.spring.aspect.RateLimitStartCheck;
import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.core.RateLimitEnforcer;
import io.github.tollgaters.spring.core.RateLimitPolicyProvider;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.exception.RateLimitExceptionHandler;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import io.github.tollgaters.spring.support.KeyResolvers;
import io.github.tollgaters.spring.support.RateLimitSwitches;
import io.github.tollgaters.spring.web.RateLimitExceptionResolver;
import io.github.tollgaters.spring.web.WebCallerSource;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.aopalliance.intercept.MethodInterceptor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.aop.Advisor;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Every bean gives way to one of the app, and nothing needs more than it uses. */
class ReplacementTest {

    private static final AutoConfigurations ALL = AutoConfigurations.of(
            TollgateAutoConfiguration.class, RateLimitAutoConfiguration.class, RateLimitMvcAutoConfiguration.class);
    private static final RateLimitDecision DENIED =
            new RateLimitDecision(false, 1500, Duration.ofMillis(1500), Duration.ofSeconds(9));

    private final ApplicationContextRunner runner = new ApplicationContextRunner().withConfiguration(ALL);
    private final WebApplicationContextRunner web = new WebApplicationContextRunner().withConfiguration(ALL);

    static List<Class<?>> beans() {
        return List.of(
                Tollgate.class,
                RateLimiter.class,
                RateLimitEnforcer.class,
                RateLimitPolicyProvider.class,
                RateLimitKeyResolver.class,
                KeyResolvers.class,
                RateLimitSwitches.class,
                RateLimitAdvisor.class,
                RateLimitStartCheck.class,
                WebCallerSource.class,
                RateLimitExceptionHandler.class,
                RateLimitExceptionResolver.class);
    }

    @ParameterizedTest
    @MethodSource("beans")
    void there_is_one_bean_of_each_type(Class<?> type) {
        web.run(context -> assertThat(context).hasSingleBean(type));
    }

    @Test
    void a_bean_of_the_app_replaces_each() {
        web.withUserConfiguration(Own.class).run(context -> {
            assertThat(context).hasNotFailed();
            for (Class<?> type : beans()) {
                String name = type == RateLimitKeyResolver.class ? "defaultRateLimitKeyResolver" : null;
                Object bean = name == null ? context.getBean(type) : context.getBean(name);
                assertThat(context.getBeansOfType(type)).hasSize(1);
                assertThat(context.getBeanFactory()
                                .getBeanDefinition(context.getBeanNamesForType(type)[0])
                                .getFactoryBeanName())
                        .as(type.getName())
                        .contains("Own");
                assertThat(bean).isNotNull();
            }
        });
    }

    @Test
    void an_advisor_of_any_type_with_the_name_replaces_the_interceptor() {
        runner.withUserConfiguration(OwnAdvisor.class, Shop.class).run(context -> {
            assertThat(context).hasNotFailed().doesNotHaveBean(RateLimitAdvisor.class);
            assertThat(context.getBean(Shop.class).search("a")).isEqualTo("found");
        });
    }

    @Test
    void a_limiter_of_the_app_decides_and_a_recorder_records() {
        List<String> recorded = new ArrayList<>();
        runner.withBean(RateLimiter.class, () -> (key, policy) -> key.equals("global:a") ? admitted() : DENIED)
                .withBean(RateLimitMetricsRecorder.class, () -> new Recorder(recorded))
                .withBean(Shop.class)
                .run(context -> {
                    Shop shop = context.getBean(Shop.class);
                    assertThat(shop.search("a")).isEqualTo("found");
                    assertThat(catchDenial(() -> shop.search("b")).getDecision()).isEqualTo(DENIED);
                    assertThat(recorded).containsExactly("search true", "search false");
                });
    }

    @Test
    void a_policy_provider_of_the_app_sets_the_limit_and_may_do_so_without_one_in_the_annotation() {
        RateLimitPolicy policy = new RateLimitPolicy(3, Duration.ofMinutes(1), "GLOBAL");
        List<String> seen = new ArrayList<>();
        runner.withBean(RateLimitPolicyProvider.class, () -> context -> policy)
                .withBean(RateLimiter.class, () -> (key, given) -> {
                    seen.add(key + " " + given.getQuotas());
                    return admitted();
                })
                .withBean(Named.class)
                .run(context -> {
                    context.getBean(Named.class).search();
                    assertThat(seen).containsExactly("global:" + Named.class.getName() + "#search [3/60000ms]");
                });
    }

    @Test
    void a_recorder_hears_of_calls_without_a_decision() {
        List<String> recorded = new ArrayList<>();
        runner.withBean(RateLimiter.class, () -> (key, policy) -> {
                    throw new IllegalStateException("broken");
                })
                .withBean(RateLimitMetricsRecorder.class, () -> new Recorder(recorded))
                .withBean(Shop.class)
                .run(context -> {
                    assertThat(catchAny(() -> context.getBean(Shop.class).search("a"))).hasMessage("broken");
                    assertThat(recorded).containsExactly("search IllegalStateException");
                });
    }

    @Test
    void a_resolver_of_the_app_resolves_keys_for_annotations_that_name_its_type() {
        List<String> keys = new ArrayList<>();
        runner.withBean(RateLimiter.class, () -> (key, policy) -> {
                    keys.add(key);
                    return admitted();
                })
                .withBean(ById.class)
                .withBean(Resolved.class)
                .run(context -> {
                    context.getBean(Resolved.class).search("7");
                    assertThat(keys).containsExactly("id:7");
                    assertThat(catchAny(() -> context.getBean(Resolved.class).search(null)))
                            .hasMessageContaining("the key of a call is missing");
                });
    }

    @Test
    void limits_hold_without_web_reactor_micrometer_and_aspectj() {
        runner.withClassLoader(new FilteredClassLoader(
                        "org.springframework.web", "jakarta.servlet", "reactor", "org.reactivestreams", "io.micrometer",
                        "org.aspectj"))
                .withBean(RateLimiter.class, () -> (key, policy) -> DENIED)
                .withBean(Shop.class)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(catchDenial(() -> context.getBean(Shop.class).search("a"))).isNotNull();
                });
    }

    @Test
    void a_fake_replaces_the_client_in_tests_of_an_app() {
        runner.withBean("tollgate", FakeTollgate.class, () -> new FakeTollgate())
                .withBean(Shop.class)
                .run(context -> {
                    assertThat(context).hasSingleBean(Tollgate.class);
                    FakeTollgate fake = context.getBean(FakeTollgate.class);
                    Shop shop = context.getBean(Shop.class);
                    assertThat(shop.search("a")).isEqualTo("found");
                    fake.deny("search", Duration.ofMillis(29_001));
                    assertThat(catchDenial(() -> shop.search("a")))
                            .hasMessage("rate limit exceeded: search, retry in 30 s");
                    fake.fail("search", FailureKind.TIMEOUT);
                    assertThat(shop.search("a")).isEqualTo("found");
                });
    }

    @Test
    void without_a_decision_a_closed_name_is_refused() {
        runner.withBean("tollgate", FakeTollgate.class, () -> new FakeTollgate(settings ->
                        settings.onFailure("search", OnFailure.CLOSED)))
                .withBean(Shop.class)
                .run(context -> {
                    context.getBean(FakeTollgate.class).fail("search", FailureKind.TIMEOUT);
                    assertThat(catchAny(() -> context.getBean(Shop.class).search("a")))
                            .isInstanceOf(RateLimiterBackendException.class)
                            .hasMessage("no decision about the limit search: timeout; such calls are refused");
                });
    }

    @Test
    void a_limiter_that_knows_no_cost_says_so() {
        runner.withBean(RateLimiter.class, () -> (key, policy) -> admitted())
                .withBean(Costly.class)
                .run(context -> assertThat(catchAny(() -> context.getBean(Costly.class).search()))
                        .isInstanceOf(UnsupportedOperationException.class)
                        .hasMessageContaining("does not implement evaluate(RateLimitCall)"));
    }

    @Test
    void a_recorder_that_fails_takes_no_decision_down() {
        runner.withBean(RateLimiter.class, () -> (key, policy) -> admitted())
                .withBean(RateLimitMetricsRecorder.class, Broken::new)
                .withBean(Shop.class)
                .run(context -> assertThat(context.getBean(Shop.class).search("a")).isEqualTo("found"));
    }

    private static RateLimitDecision admitted() {
        return new RateLimitDecision(true, 0, null, null);
    }

    private static RateLimitExceededException catchDenial(Runnable call) {
        return (RateLimitExceededException) catchAny(call);
    }

    private static Throwable catchAny(Runnable call) {
        try {
            call.run();
            return null;
        } catch (RuntimeException e) {
            return e;
        }
    }

    record Recorder(List<String> lines) implements RateLimitMetricsRecorder {
        @Override
        public void recordDecision(String name, RateLimitPolicy policy, RateLimitDecision decision, Duration latency) {
            lines.add(name + " " + decision.isAllowed());
        }

        @Override
        public void recordError(String name, RateLimitPolicy policy, Duration latency, Throwable error) {
            lines.add(name + " " + error.getClass().getSimpleName());
        }
    }

    static final class Broken implements RateLimitMetricsRecorder {
        @Override
        public void recordDecision(String name, RateLimitPolicy policy, RateLimitDecision decision, Duration latency) {
            throw new IllegalStateException("metrics are broken");
        }

        @Override
        public void recordError(String name, RateLimitPolicy policy, Duration latency, Throwable error) {
            throw new IllegalStateException("metrics are broken");
        }
    }

    public static class Shop {
        @RateLimit(name = "search", limit = 5, duration = 1, key = "#{#id}")
        public String search(String id) {
            return "found";
        }
    }

    static class Named {
        @RateLimit(name = "search", scope = "GLOBAL")
        public void search() {}
    }

    static class Costly {
        @RateLimit(name = "search", scope = "GLOBAL", cost = "2")
        public void search() {}
    }

    static class Resolved {
        @RateLimit(name = "search", keyResolver = ById.class)
        public void search(String id) {}
    }

    static class ById implements RateLimitKeyResolver {
        @Override
        public String resolveKey(RateLimitContext context) {
            Object id = context.getArguments()[0];
            return id == null ? null : "id:" + id;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class OwnAdvisor {
        @Bean
        static Advisor rateLimitAdvisor() {
            return new DefaultPointcutAdvisor(
                    new StaticMethodMatcherPointcut() {
                        @Override
                        public boolean matches(Method method, Class<?> targetClass) {
                            return false;
                        }
                    },
                    (MethodInterceptor) invocation -> invocation.proceed());
        }
    }

    @Configuration
    static class Own {
        @Bean
        Tollgate mine() {
            return Tollgate.builder().build();
        }

        @Bean
        RateLimiter limiter() {
            return (key, policy) -> admitted();
        }

        @Bean
        RateLimitEnforcer enforcer() {
            return new RateLimitEnforcer() {
                @Override
                public RateLimitDecision evaluate(RateLimitContext context) {
                    return admitted();
                }

                @Override
                public void enforce(RateLimitContext context) {}
            };
        }

        @Bean
        RateLimitPolicyProvider policies() {
            return context -> new RateLimitPolicy(1, Duration.ofSeconds(1), "GLOBAL");
        }

        @Bean
        RateLimitKeyResolver defaultRateLimitKeyResolver() {
            return context -> "key";
        }

        @Bean
        KeyResolvers resolvers(RateLimitKeyResolver byDefault) {
            return new KeyResolvers(byDefault, List.of());
        }

        @Bean
        RateLimitSwitches switches() {
            return new RateLimitSwitches(true, Map.of());
        }

        @Bean
        RateLimitAdvisor advisor(RateLimitSwitches switches, BeanFactory beans) {
            return new RateLimitAdvisor(switches, beans);
        }

        @Bean
        RateLimitStartCheck check(
                ConfigurableListableBeanFactory beans,
                RateLimitAdvisor advisor,
                KeyResolvers resolvers,
                RateLimitSwitches switches) {
            return new RateLimitStartCheck(beans, advisor, resolvers, switches, Set.of(), Set.of());
        }

        @Bean
        WebCallerSource servletWebCallerSource() {
            return Optional::empty;
        }

        @Bean
        RateLimitExceptionHandler handler() {
            return new RateLimitExceptionHandler(false);
        }

        @Bean
        RateLimitExceptionResolver resolver() {
            return new RateLimitExceptionResolver(ProblemBody.STARTER, false);
        }
    }
}
