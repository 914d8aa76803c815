package io.github.tollgaters.spring.aspect;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.config.RateLimitAutoConfiguration;
import io.github.tollgaters.spring.config.TollgateAutoConfiguration;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.model.RateLimitDecision;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.aop.support.AopUtils;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** A method has the limit of what it overrides, also if only the class of the bean connects the two. */
class InheritanceTest {

    private final AtomicInteger calls = new AtomicInteger();
    private final ApplicationContextRunner runner = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    AopAutoConfiguration.class, TollgateAutoConfiguration.class, RateLimitAutoConfiguration.class))
            .withBean(RateLimiter.class, () -> (key, policy) -> {
                boolean first = calls.getAndIncrement() == 0;
                return new RateLimitDecision(first, first ? 0 : -1, null, null);
            });

    private void admitsTheFirst(Runnable call) {
        calls.set(0);
        call.run();
        assertThatThrownBy(call::run).isInstanceOf(RateLimitExceededException.class);
        assertThat(calls).hasValue(2);
    }

    static List<Class<? extends Get<String>>> generic() {
        return List.of(
                OfSuperclass.class, OfSuperInterface.class, OfGenericSuperclass.class, OfBoundedSuperclass.class);
    }

    @ParameterizedTest
    @MethodSource("generic")
    void the_annotation_of_a_generic_method_is_found(Class<? extends Get<String>> type) {
        for (boolean classes : new boolean[] {true, false}) {
            runner.withPropertyValues("spring.aop.proxy-target-class=" + classes)
                    .withBean("shop", type)
                    .run(context -> {
                        assertThat(context).hasNotFailed();
                        @SuppressWarnings("unchecked")
                        Get<String> shop = (Get<String>) context.getBean("shop");
                        assertThat(AopUtils.isCglibProxy(shop)).isEqualTo(classes);
                        admitsTheFirst(() -> shop.get("id"));
                    });
        }
    }

    @Test
    void the_annotation_of_a_generic_superclass_is_found() {
        runner.withBean(OfAbstractClass.class).run(context -> {
            OfAbstractClass shop = context.getBean(OfAbstractClass.class);
            admitsTheFirst(() -> shop.get("id"));
        });
    }

    @Test
    void a_method_with_other_parameters_is_not_limited() {
        runner.withBean(OfSuperclass.class).run(context -> {
            OfSuperclass shop = context.getBean(OfSuperclass.class);
            admitsTheFirst(() -> shop.get("id"));
            calls.set(0);
            shop.get(1);
            assertThat(calls).hasValue(0);
        });
    }

    @ParameterizedTest
    @ValueSource(classes = {TwoOfSubclass.class, OneOfEach.class})
    void two_interfaces_of_which_none_goes_first_are_refused(Class<?> type) {
        runner.withBean("shop", type).run(context -> {
            assertThat(context).hasFailed();
            assertThat(context.getStartupFailure())
                    .hasStackTraceContaining("#find(String): there are two annotations, \"");
        });
    }

    @ParameterizedTest
    @ValueSource(classes = {Lower.class, Same.class, OfClass.class})
    void an_interface_below_another_an_equal_annotation_and_a_class_go_first(Class<?> type) {
        runner.withBean("shop", type).run(context -> {
            assertThat(context).hasNotFailed();
            admitsTheFirst(() -> ((Find) context.getBean("shop")).find("id"));
        });
    }

    interface Get<T> {
        @RateLimit(name = "get", quotas = "5/1m")
        String get(T id);
    }

    interface GetMore<T> extends Get<T> {}

    static class Plain {
        public String get(String id) {
            return id;
        }

        public String get(Integer id) {
            return "number";
        }
    }

    static class OfSuperclass extends Plain implements Get<String> {}

    static class OfSuperInterface extends Plain implements GetMore<String> {}

    static class Generic<T extends CharSequence> {
        public String get(T id) {
            return "generic";
        }
    }

    static class OfBoundedSuperclass extends Generic<String> implements Get<String> {}

    abstract static class Half<T> implements Get<T> {
        public String get(String id) {
            return id;
        }
    }

    static class OfGenericSuperclass extends Half<String> {}

    abstract static class Above<T> {
        @RateLimit(name = "above", quotas = "5/1m")
        public abstract String get(T id);
    }

    abstract static class Below<T> extends Above<T> {
        public String get(String id) {
            return id;
        }
    }

    static class OfAbstractClass extends Below<String> {}

    interface Find {
        String find(String id);
    }

    interface FindA extends Find {
        @Override
        @RateLimit(name = "a", quotas = "5/1m")
        String find(String id);
    }

    interface FindB extends Find {
        @Override
        @RateLimit(name = "b", quotas = "5/1m")
        String find(String id);
    }

    interface FindSame {
        @RateLimit(name = "a", quotas = "5/1m")
        String find(String id);
    }

    interface FindBelow extends FindA {
        @Override
        @RateLimit(name = "below", quotas = "5/1m")
        String find(String id);
    }

    static class Finder {
        public String find(String id) {
            return id;
        }
    }

    static class AnnotatedFinder {
        @RateLimit(name = "own", quotas = "5/1m")
        public String find(String id) {
            return id;
        }
    }

    static class TwoOfSubclass extends Finder implements FindA, FindB {}

    static class DeclaresA implements FindA {
        @Override
        public String find(String id) {
            return id;
        }
    }

    static class OneOfEach extends DeclaresA implements FindB {}

    static class Lower extends Finder implements FindA, FindBelow {}

    static class Same extends Finder implements FindA, FindSame {}

    static class OfClass extends AnnotatedFinder implements FindA, FindB {}
}
