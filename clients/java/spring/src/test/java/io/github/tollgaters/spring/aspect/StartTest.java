package io.github.tollgaters.spring.aspect;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.config.InvalidRateLimitFailureAnalyzer;
import io.github.tollgaters.spring.config.RateLimitAutoConfiguration;
import io.github.tollgaters.spring.config.TollgateAutoConfiguration;
import io.github.tollgaters.spring.config.TollgateReactiveAutoConfiguration;
import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import kotlin.coroutines.Continuation;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.mockito.Mockito;
import org.reactivestreams.Publisher;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.framework.ProxyFactoryBean;
import org.springframework.beans.factory.FactoryBean;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.core.PriorityOrdered;
import reactor.core.publisher.ParallelFlux;

/** What cannot work, or would be skipped silently, is an error when the app starts. */
class StartTest {

    private final ApplicationContextRunner runner = new ApplicationContextRunner()
            .withConfiguration(
                    AutoConfigurations.of(TollgateAutoConfiguration.class, RateLimitAutoConfiguration.class));

    static List<Arguments> wrong() {
        return List.of(
                Arguments.of(NoLimit.class, "give a name, which a policy of the service matches, or a limit"),
                Arguments.of(NoDuration.class, "limit needs a duration"),
                Arguments.of(NoCount.class, "duration needs a limit"),
                Arguments.of(ZeroLimit.class, "a limit must be 1 or more, got 0"),
                Arguments.of(ZeroDuration.class, "duration must be 1 or more, got 0"),
                Arguments.of(TooShort.class, "a whole number of milliseconds"),
                Arguments.of(TwoKinds.class, "quotas replace limit and duration"),
                Arguments.of(EmptyQuota.class, "a quota is empty"),
                Arguments.of(WrongName.class, "name = \"a b\""),
                Arguments.of(WrongScope.class, "no such scope: \"TENANT\""),
                Arguments.of(NoBraces.class, "written in braces: \"#{#id}\""),
                Arguments.of(NoBracesOfBean.class, "written in braces: \"#{@plans.of(#id)}\""),
                Arguments.of(OnlyAName.class, "\" id \" reads like an expression, but is one key for all callers: write "
                        + "\"#{#id}\", or \"#{'id'}\" if the text is meant"),
                Arguments.of(OnlyAPath.class, "write \"#{#id.length}\""),
                Arguments.of(OnlyACall.class, "write \"#{T(Integer).parseInt('1')}\""),
                Arguments.of(NoExpression.class, "key = \"#{#id\""),
                Arguments.of(NoSuchArgument.class, "#user: the method has no parameter of that name; it has [id]"),
                Arguments.of(WrongCost.class, "cost = \"-1\""),
                Arguments.of(CostTooHigh.class, "a cost is a whole number from 0 to 4294967295"),
                Arguments.of(MixedCost.class, "a cost is a number, or one expression"),
                Arguments.of(NoBracesOfCost.class, "written in braces: \"#{#id}\""),
                Arguments.of(KeyTwice.class, "give a key or a keyResolver, not both"),
                Arguments.of(NoResolver.class, "keyResolver = " + ById.class.getName() + ": there is no bean"),
                Arguments.of(NoFallback.class, "fallback = \"other\": " + NoFallback.class.getName() + " has no such"),
                Arguments.of(WrongFallback.class, "needs the parameters [String], optionally one more"),
                Arguments.of(WrongResult.class, "and the same result"),
                Arguments.of(TwoFallbacks.class, "several methods fit"),
                Arguments.of(Private.class, "Spring cannot limit a private method"),
                Arguments.of(Static.class, "Spring cannot limit a static method"),
                Arguments.of(Final.class, "Spring cannot limit a final method"),
                Arguments.of(FinalInClass.class, "Spring cannot limit a final method"),
                Arguments.of(FinalClass.class, "Could not generate CGLIB subclass of " + FinalClass.class),
                Arguments.of(Reactive.class, "a result of the type org.reactivestreams.Publisher cannot be limited"),
                Arguments.of(Suspending.class, "suspend functions cannot be limited"),
                Arguments.of(TwoMeta.class, "there are two annotations"),
                Arguments.of(TwoInterfaces.class, "there are two annotations"));
    }

    @Test
    void a_reactive_type_that_spring_cannot_make_is_refused() {
        runner.withConfiguration(AutoConfigurations.of(TollgateReactiveAutoConfiguration.class))
                .withUserConfiguration(Parallel.class)
                .run(context -> assertThat(context).getFailure().hasMessageContaining(
                        "a result of the type reactor.core.publisher.ParallelFlux cannot be limited"));
    }

    @ParameterizedTest
    @MethodSource("wrong")
    void refuses_what_cannot_work_and_names_the_bean_the_method_and_the_attribute(Class<?> bean, String message) {
        runner.withPropertyValues("spring.aop.proxy-target-class=true")
                .withBean("shop", bean)
                .run(context -> {
                    assertThat(context).hasFailed();
                    String all = messages(context.getStartupFailure());
                    assertThat(all).contains("'shop'").contains(message);
                    if (bean != FinalClass.class) {
                        assertThat(all).contains(bean.getName() + "#");
                        FailureAnalysis analysis =
                                new InvalidRateLimitFailureAnalyzer().analyze(context.getStartupFailure());
                        assertThat(analysis.getDescription()).contains(bean.getName() + "#").contains(message);
                    }
                });
    }

    private static String messages(Throwable failure) {
        StringBuilder messages = new StringBuilder();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            messages.append(cause.getMessage()).append('\n');
        }
        return messages.toString();
    }

    @Test
    void a_bean_that_is_made_lazily_is_checked_when_the_app_starts() {
        runner.withUserConfiguration(LazyShop.class).run(context -> {
            assertThat(context).hasFailed();
            assertThat(messages(context.getStartupFailure())).contains("'lazy'").contains("keyResolver = ");
        });
    }

    @Test
    void what_a_factory_makes_is_checked_when_the_app_starts() {
        runner.withBean("remote", RemoteFactory.class).run(context -> {
            assertThat(context).hasFailed();
            assertThat(messages(context.getStartupFailure())).contains("'remote'").contains("keyResolver = ");
        });
    }

    @Test
    void a_factory_of_proxies_is_fine() {
        runner.withBean("shop", ProxyFactoryBean.class, () -> {
                    ProxyFactoryBean factory = new ProxyFactoryBean();
                    factory.setTarget(new Fine());
                    return factory;
                })
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(((Advised) context.getBean("shop")).getAdvisors())
                            .contains(context.getBean(RateLimitAdvisor.class));
                });
    }

    @Test
    void a_bean_that_is_made_too_early_is_refused() {
        runner.withUserConfiguration(Early.class).run(context -> {
            assertThat(context).hasFailed();
            assertThat(messages(context.getStartupFailure()))
                    .contains("'early'")
                    .contains(Early.Shop.class.getName() + "#search(String)")
                    .contains("Spring does not intercept this bean")
                    .contains("made too early");
        });
    }

    @Test
    void a_bean_that_spring_did_not_make_is_refused_but_a_mock_is_not() {
        runner.withInitializer(context -> context.getBeanFactory().registerSingleton("shop", new Early.Shop()))
                .run(context -> assertThat(messages(context.getStartupFailure()))
                        .contains("'shop'")
                        .contains("Or Spring did not make it"));
        Early.Shop mock = Mockito.mock(Early.Shop.class);
        runner.withInitializer(context -> context.getBeanFactory().registerSingleton("shop", mock))
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void a_method_that_the_interfaces_of_a_jdk_proxy_lack_is_refused() {
        runner.withBean("shop", OffInterface.class).run(context -> {
            assertThat(context).hasFailed();
            assertThat(messages(context.getStartupFailure())).contains("no interface of it has this method");
        });
    }

    @Test
    void nothing_is_refused_if_limits_are_off() {
        runner.withPropertyValues("tollgate.enabled=false")
                .withBean(Private.class)
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void an_interface_or_a_prototype_is_fine() {
        runner.withBean("shop", Callable.class, () -> new Callable<String>() {
                    @Override
                    @RateLimit("search")
                    public String call() {
                        return "ok";
                    }
                })
                .run(context -> assertThat(context).hasNotFailed());
    }

    static class NoLimit {
        @RateLimit
        public void search(String id) {}
    }

    static class NoDuration {
        @RateLimit(limit = 5)
        public void search(String id) {}
    }

    static class NoCount {
        @RateLimit(duration = 5)
        public void search(String id) {}
    }

    static class ZeroLimit {
        @RateLimit(limit = 0, duration = 5)
        public void search(String id) {}
    }

    static class ZeroDuration {
        @RateLimit(limit = 1, duration = 0)
        public void search(String id) {}
    }

    static class TooShort {
        @RateLimit(limit = 1, duration = 5, timeUnit = TimeUnit.MICROSECONDS)
        public void search(String id) {}
    }

    static class TwoKinds {
        @RateLimit(limit = 1, duration = 5, quotas = "5/1m")
        public void search(String id) {}
    }

    static class EmptyQuota {
        @RateLimit(quotas = " ")
        public void search(String id) {}
    }

    static class WrongName {
        @RateLimit(name = "a b", quotas = "5/1m")
        public void search(String id) {}
    }

    static class WrongScope {
        @RateLimit(name = "search", scope = "TENANT")
        public void search(String id) {}
    }

    static class NoBraces {
        @RateLimit(name = "search", key = "#id")
        public void search(String id) {}
    }

    static class NoBracesOfBean {
        @RateLimit(name = "search", key = "@plans.of(#id)")
        public void search(String id) {}
    }

    static class OnlyAName {
        @RateLimit(name = "search", key = " id ")
        public void search(String id) {}
    }

    static class OnlyAPath {
        @RateLimit(name = "search", key = "id.length")
        public void search(String id) {}
    }

    static class OnlyACall {
        @RateLimit(name = "search", key = "T(Integer).parseInt('1')")
        public void search(String id) {}
    }

    static class NoExpression {
        @RateLimit(name = "search", key = "#{#id")
        public void search(String id) {}
    }

    static class NoSuchArgument {
        @RateLimit(name = "search", key = "#{#user.name}")
        public void search(String id) {}
    }

    static class WrongCost {
        @RateLimit(name = "search", cost = "-1")
        public void search(String id) {}
    }

    static class MixedCost {
        @RateLimit(name = "search", cost = "1#{#id.length()}")
        public void search(String id) {}
    }

    static class NoBracesOfCost {
        @RateLimit(name = "search", cost = "#id")
        public void search(String id) {}
    }

    static class KeyTwice {
        @RateLimit(name = "search", key = "a", keyResolver = ById.class)
        public void search(String id) {}
    }

    static class NoResolver {
        @RateLimit(name = "search", keyResolver = ById.class)
        public void search(String id) {}
    }

    static class ById implements RateLimitKeyResolver {
        @Override
        public String resolveKey(RateLimitContext context) {
            return "id";
        }
    }

    static class NoFallback {
        @RateLimit(name = "search", fallback = "other")
        public void search(String id) {}
    }

    static class WrongFallback {
        @RateLimit(name = "search", fallback = "other")
        public void search(String id) {}

        void other(int id) {}
    }

    static class WrongResult {
        @RateLimit(name = "search", fallback = "other")
        public int search(String id) {
            return 1;
        }

        String other(String id) {
            return id;
        }
    }

    static class TwoFallbacks {
        @RateLimit(name = "search", fallback = "other")
        public void search(String id) {}

        void other(String id) {}

        void other(String id, RateLimitExceededException denied) {}
    }

    static class Private {
        @RateLimit("search")
        private void search(String id) {}
    }

    static class Static {
        @RateLimit("search")
        public static void search(String id) {}
    }

    static class Final {
        @RateLimit("search")
        public final void search(String id) {}
    }

    @RateLimit("search")
    static class FinalInClass {
        public final void search(String id) {}
    }

    static final class FinalClass {
        @RateLimit("search")
        public void search(String id) {}
    }

    static class Reactive {
        @RateLimit("search")
        public Publisher<String> search(String id) {
            return null;
        }
    }

    static class Suspending {
        @RateLimit("search")
        public Object search(String id, Continuation<String> continuation) {
            return null;
        }
    }

    @Retention(RetentionPolicy.RUNTIME)
    @RateLimit("a")
    @interface LimitA {}

    static class TwoMeta {
        @LimitA
        @RateLimit("b")
        public void search(String id) {}
    }

    interface WithA {
        @RateLimit("a")
        void search(String id);
    }

    interface WithB {
        @RateLimit("b")
        void search(String id);
    }

    static class TwoInterfaces implements WithA, WithB {
        @Override
        public void search(String id) {}
    }

    static class OffInterface implements Runnable {
        @Override
        public void run() {}

        @RateLimit("search")
        public void search(String id) {}
    }

    interface Remote {
        @RateLimit(name = "search", keyResolver = ById.class)
        String search();
    }

    static class RemoteFactory implements FactoryBean<Remote> {
        @Override
        public Remote getObject() {
            return () -> "found";
        }

        @Override
        public Class<?> getObjectType() {
            return Remote.class;
        }
    }

    static class Fine {
        @RateLimit(name = "search", key = "ids (all)")
        public void search(String id) {}
    }

    @Configuration(proxyBeanMethods = false)
    static class LazyShop {
        @Bean
        @Lazy
        NoResolver lazy() {
            return new NoResolver();
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Early {
        static class Shop {
            @RateLimit("search")
            public void search(String id) {}
        }

        @Bean
        static Shop early() {
            return new Shop();
        }

        @Bean
        static FirstOfAll needy(Shop shop) {
            return new FirstOfAll();
        }

        static class FirstOfAll implements BeanPostProcessor, PriorityOrdered {
            @Override
            public int getOrder() {
                return HIGHEST_PRECEDENCE;
            }
        }
    }

    static class Parallel {
        @RateLimit("search")
        public ParallelFlux<String> search() {
            return null;
        }
    }

    static class CostTooHigh {
        @RateLimit(name = "search", cost = "4294967296")
        public void search() {}
    }
}
