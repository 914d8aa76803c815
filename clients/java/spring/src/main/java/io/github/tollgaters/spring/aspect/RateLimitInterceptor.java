package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.core.RateLimitEnforcer;
import io.github.tollgaters.spring.reactive.ReactiveSupport;
import io.github.tollgaters.spring.support.Places;
import io.github.tollgaters.spring.web.WebCaller;
import io.github.tollgaters.spring.web.WebCallerSource;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.framework.AopProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.util.function.SingletonSupplier;

/** Checks the limit of a method before it is called. */
final class RateLimitInterceptor implements MethodInterceptor {

    private final RateLimitDefinitions definitions;
    private final SingletonSupplier<RateLimitEnforcer> enforcer;
    private final SingletonSupplier<List<WebCallerSource>> callers;
    private final SingletonSupplier<List<ReactiveSupport>> reactive;

    /** Beans are found at the first call: an interceptor is made before most of them. */
    RateLimitInterceptor(
            RateLimitDefinitions definitions,
            Supplier<RateLimitEnforcer> enforcer,
            Supplier<List<WebCallerSource>> callers,
            Supplier<List<ReactiveSupport>> reactive) {
        this.definitions = definitions;
        this.enforcer = SingletonSupplier.of(enforcer);
        this.callers = SingletonSupplier.of(callers);
        this.reactive = SingletonSupplier.of(reactive);
    }

    @Override
    public Object invoke(MethodInvocation invocation) throws Throwable {
        Object target = invocation.getThis();
        if (isCheckedWithin(target)) {
            return invocation.proceed();
        }
        Class<?> targetClass = target == null
                ? invocation.getMethod().getDeclaringClass()
                : AopUtils.getTargetClass(target);
        Optional<RateLimitDefinition> definition = definitions.find(invocation.getMethod(), targetClass);
        if (definition.isEmpty()) {
            return invocation.proceed();
        }
        InterceptedCall call = new InterceptedCall(definition.get(), invocation, enforcer.obtain());
        Optional<ReactiveSupport> support = supportOf(definition.get());
        if (support.isPresent()) {
            return support.get().invoke(call);
        }
        checkMayWait(definition.get());
        RateLimitContext context = call.contextOf(currentCaller());
        try {
            enforcer.obtain().enforce(context);
        } catch (RuntimeException e) {
            if (call.hasFallbackFor(e)) {
                return call.fallback(e);
            }
            throw e;
        }
        return invocation.proceed();
    }

    /** Two creators of proxies make a proxy around a proxy, and a call must count once. */
    private boolean isCheckedWithin(Object target) {
        for (Object inner = target; inner instanceof Advised advised; inner = AopProxyUtils.getSingletonTarget(inner)) {
            if (Arrays.stream(advised.getAdvisors()).anyMatch(advisor -> advisor.getAdvice() == this)) {
                return true;
            }
        }
        return false;
    }

    /**
     * Returns what runs the limit of a method whose result comes later.
     *
     * @throws IllegalStateException if the method returns a reactive type, and nothing supports it
     */
    Optional<ReactiveSupport> supportOf(RateLimitDefinition definition) {
        Optional<ReactiveSupport> support = reactive.obtain().stream()
                .filter(candidate -> candidate.supports(definition.method()))
                .findFirst();
        if (support.isEmpty() && definition.resultComesLater()) {
            throw new IllegalStateException(Places.of(definition.method(), definition.targetClass())
                    + ": a result of the type " + definition.method().getReturnType().getName()
                    + " cannot be limited; return a Mono or a Flux");
        }
        return support;
    }

    private void checkMayWait(RateLimitDefinition definition) {
        if (!reactive.obtain().stream().allMatch(ReactiveSupport::mayWait)) {
            throw new IllegalStateException(Places.of(definition.method(), definition.targetClass())
                    + ": the check would block the thread " + Thread.currentThread().getName()
                    + ", which must not wait; return a Mono or a Flux, or call the method on another thread");
        }
    }

    private Optional<WebCaller> currentCaller() {
        return callers.obtain().stream().flatMap(source -> source.current().stream()).findFirst();
    }
}
