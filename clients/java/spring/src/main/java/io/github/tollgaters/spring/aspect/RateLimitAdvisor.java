package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.core.RateLimitEnforcer;
import io.github.tollgaters.spring.reactive.ReactiveSupport;
import io.github.tollgaters.spring.support.RateLimitSwitches;
import io.github.tollgaters.spring.web.WebCallerSource;
import java.io.Serial;
import java.lang.reflect.Method;
import java.util.Optional;
import org.aopalliance.aop.Advice;
import org.springframework.aop.Pointcut;
import org.springframework.aop.support.AbstractPointcutAdvisor;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.core.annotation.AnnotationUtils;

/**
 * Puts the check of a limit in front of methods with {@link RateLimit}. It needs no AspectJ.
 *
 * <p>The check comes after the method security of Spring, so that nobody without rights consumes another's limit, and
 * before transactions and caches.
 */
public final class RateLimitAdvisor extends AbstractPointcutAdvisor {

    @Serial
    private static final long serialVersionUID = 1L;

    /** The place among other advisors: method security has 100 to 600, transactions and caches come last. */
    public static final int ORDER = 1000;

    private final transient RateLimitDefinitions definitions;
    private final transient RateLimitInterceptor interceptor;
    private final transient Pointcut pointcut;

    /**
     * Makes an advisor.
     *
     * @param switches which limits are enforced
     * @param beans where the enforcer and others are found at the first call
     */
    public RateLimitAdvisor(RateLimitSwitches switches, BeanFactory beans) {
        this.definitions = new RateLimitDefinitions(switches);
        this.interceptor = new RateLimitInterceptor(
                definitions,
                () -> beans.getBean(RateLimitEnforcer.class),
                () -> beans.getBeanProvider(WebCallerSource.class).orderedStream().toList(),
                () -> beans.getBeanProvider(ReactiveSupport.class).orderedStream().toList());
        this.pointcut = switches.isEnabled() ? new LimitedMethods(definitions) : new NoMethods();
        setOrder(ORDER);
    }

    @Override
    public Pointcut getPointcut() {
        return pointcut;
    }

    @Override
    public Advice getAdvice() {
        return interceptor;
    }

    Optional<RateLimitDefinition> find(Method method, Class<?> targetClass) {
        return definitions.find(method, targetClass);
    }

    void checkResult(RateLimitDefinition definition) {
        interceptor.supportOf(definition);
    }

    private static final class LimitedMethods extends StaticMethodMatcherPointcut {

        private final RateLimitDefinitions definitions;

        LimitedMethods(RateLimitDefinitions definitions) {
            this.definitions = definitions;
            setClassFilter(type -> AnnotationUtils.isCandidateClass(type, RateLimit.class));
        }

        @Override
        public boolean matches(Method method, Class<?> targetClass) {
            return definitions.find(method, targetClass).isPresent();
        }
    }

    private static final class NoMethods extends StaticMethodMatcherPointcut {

        NoMethods() {
            setClassFilter(type -> false);
        }

        @Override
        public boolean matches(Method method, Class<?> targetClass) {
            return false;
        }
    }
}
