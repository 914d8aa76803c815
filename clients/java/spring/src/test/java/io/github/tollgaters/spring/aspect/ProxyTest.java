package io.github.tollgaters.spring.aspect;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.config.RateLimitAutoConfiguration;
import io.github.tollgaters.spring.config.TollgateAutoConfiguration;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.springframework.aop.framework.autoproxy.DefaultAdvisorAutoProxyCreator;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.FactoryBean;
import org.springframework.beans.factory.config.CustomScopeConfigurer;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.context.annotation.Scope;
import org.springframework.context.annotation.ScopedProxyMode;
import org.springframework.context.support.SimpleThreadScope;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;

/** A limit is checked once for a call, whatever proxies a bean has. */
class ProxyTest {

    private static final AutoConfigurations OURS = AutoConfigurations.of(
            AopAutoConfiguration.class, TollgateAutoConfiguration.class, RateLimitAutoConfiguration.class);

    private final Counting counting = new Counting();
    private final ApplicationContextRunner runner = new ApplicationContextRunner()
            .withConfiguration(OURS)
            .withBean(RateLimiter.class, () -> counting);

    /** Admits the first call and remembers the keys of all. */
    static final class Counting implements RateLimiter {
        final List<String> keys = new ArrayList<>();

        @Override
        public synchronized RateLimitDecision evaluate(String key, RateLimitPolicy policy) {
            keys.add(key);
            return new RateLimitDecision(keys.size() == 1, keys.size() == 1 ? 0 : -1, null, null);
        }
    }

    private void admitsTheFirst(Runnable call) {
        counting.keys.clear();
        call.run();
        assertThatThrownBy(call::run).isInstanceOf(RateLimitExceededException.class);
        assertThat(counting.keys).hasSize(2);
    }

    @Test
    void lazy_beans_prototypes_and_scoped_proxies_are_limited() {
        runner.withUserConfiguration(Scopes.class).run(context -> {
            assertThat(context).hasNotFailed();
            for (String name : List.of("lazy", "prototype", "scoped")) {
                Shop shop = (Shop) context.getBean(name);
                admitsTheFirst(shop::search);
            }
        });
    }

    @Test
    void a_method_that_overrides_a_limited_one_and_a_default_method_are_limited() {
        runner.withBean(Overriding.class).run(context -> {
            Overriding shop = context.getBean(Overriding.class);
            admitsTheFirst(shop::search);
            admitsTheFirst(shop::byDefault);
            admitsTheFirst(shop::ofSuperclass);
            admitsTheFirst(shop::inPackage);
        });
    }

    @Test
    void a_product_of_a_factory_counts_under_its_interface_in_every_process() {
        runner.withBean("market", Factory.class).run(context -> {
            assertThat(context).hasNotFailed();
            Market market = context.getBean(Market.class);
            admitsTheFirst(market::buy);
            assertThat(counting.keys.get(0)).isEqualTo("global:" + Market.class.getName() + "#buy");
            admitsTheFirst(market::sell);
            assertThat(counting.keys.get(0)).isEqualTo("global:" + Market.class.getName() + "#sell");
        });
    }

    @Test
    void limits_hold_without_the_proxies_of_spring_boot() {
        runner.withPropertyValues("spring.aop.auto=false")
                .withBean("shop", Shop.class)
                .withBean("runner", Running.class)
                .run(context -> {
                    admitsTheFirst(context.getBean(Shop.class)::search);
                    Runnable running = (Runnable) context.getBean("runner");
                    assertThat(AopUtils.isJdkDynamicProxy(running)).isTrue();
                    admitsTheFirst(running);
                });
    }

    @Test
    void a_second_creator_of_proxies_does_not_count_twice() {
        runner.withBean(DefaultAdvisorAutoProxyCreator.class, () -> {
                    DefaultAdvisorAutoProxyCreator creator = new DefaultAdvisorAutoProxyCreator();
                    creator.setProxyTargetClass(true);
                    return creator;
                })
                .withBean(Shop.class)
                .run(context -> admitsTheFirst(context.getBean(Shop.class)::search));
    }

    @Test
    void a_context_below_another_does_not_count_twice() {
        runner.run(parent -> new ApplicationContextRunner()
                .withParent(parent)
                .withConfiguration(OURS)
                .withBean(RateLimiter.class, () -> counting)
                .withBean(Shop.class)
                .run(context -> admitsTheFirst(context.getBean(Shop.class)::search)));
    }

    @Test
    void a_denial_of_an_asynchronous_method_is_in_its_future() {
        runner.withUserConfiguration(Asynchronous.class).run(context -> {
            Later later = context.getBean(Later.class);
            assertThat(later.search().get()).isEqualTo("found");
            assertThatThrownBy(() -> later.search().get())
                    .isInstanceOf(ExecutionException.class)
                    .hasCauseInstanceOf(RateLimitExceededException.class);
        });
    }

    @Test
    void methods_of_the_class_object_are_not_limited() {
        runner.withBean(Whole.class).run(context -> {
            Whole whole = context.getBean(Whole.class);
            assertThat(whole.toString()).isEqualTo("whole");
            assertThat(whole).isEqualTo(whole).hasSameHashCodeAs(whole);
            assertThat(counting.keys).isEmpty();
            admitsTheFirst(whole::search);
        });
    }

    static class Shop {
        @RateLimit(quotas = "5/1m")
        public String search() {
            return "found";
        }
    }

    static class Running implements Runnable {
        @Override
        @RateLimit(quotas = "5/1m")
        public void run() {}
    }

    interface WithDefault {
        @RateLimit(quotas = "5/1m")
        default void byDefault() {}

        @RateLimit(quotas = "5/1m")
        void ofSuperclass();
    }

    static class Plain extends Shop {
        public void ofSuperclass() {}
    }

    static class Overriding extends Plain implements WithDefault {
        @Override
        public String search() {
            return "more";
        }

        @RateLimit(quotas = "5/1m")
        void inPackage() {}
    }

    @RateLimit(quotas = "5/1m")
    interface Market {
        void buy();

        @RateLimit(quotas = "6/1m")
        void sell();
    }

    static class Factory implements FactoryBean<Market> {
        @Override
        public Market getObject() {
            return (Market) Proxy.newProxyInstance(
                    getClass().getClassLoader(), new Class<?>[] {Market.class}, (proxy, method, arguments) -> null);
        }

        @Override
        public Class<?> getObjectType() {
            return Market.class;
        }
    }

    @RateLimit(quotas = "5/1m")
    static class Whole {
        public void search() {}

        @Override
        public boolean equals(Object other) {
            return other instanceof Whole;
        }

        @Override
        public int hashCode() {
            return 1;
        }

        @Override
        public String toString() {
            return "whole";
        }
    }

    static class Later {
        @Async
        @RateLimit(quotas = "5/1m")
        public CompletableFuture<String> search() {
            return CompletableFuture.completedFuture("found");
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAsync(proxyTargetClass = true)
    static class Asynchronous {
        @Bean
        Later later() {
            return new Later();
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Scopes {
        @Bean
        static CustomScopeConfigurer scopes() {
            CustomScopeConfigurer configurer = new CustomScopeConfigurer();
            configurer.addScope("thread", new SimpleThreadScope());
            return configurer;
        }

        @Bean
        @Lazy
        Shop lazy() {
            return new Shop();
        }

        @Bean
        @Scope("prototype")
        Shop prototype() {
            return new Shop();
        }

        @Bean
        @Scope(value = "thread", proxyMode = ScopedProxyMode.TARGET_CLASS)
        Shop scoped() {
            return new Shop();
        }
    }
}
