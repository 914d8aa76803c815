package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.core.RateLimitEnforcer;
import io.github.tollgaters.spring.reactive.ReactiveInvocation;
import io.github.tollgaters.spring.support.DefaultRateLimitContext;
import io.github.tollgaters.spring.support.DefaultRateLimitEnforcer;
import io.github.tollgaters.spring.web.WebCaller;
import java.lang.reflect.Method;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.ProxyMethodInvocation;

/** A call of a limited method, before the method itself is called. */
final class InterceptedCall implements ReactiveInvocation {

    private final RateLimitDefinition definition;
    private final MethodInvocation invocation;
    private final RateLimitEnforcer enforcer;

    InterceptedCall(RateLimitDefinition definition, MethodInvocation invocation, RateLimitEnforcer enforcer) {
        this.definition = definition;
        this.invocation = invocation;
        this.enforcer = enforcer;
    }

    @Override
    public Method getMethod() {
        return definition.method();
    }

    @Override
    public boolean mayReadUser() {
        return !(enforcer instanceof DefaultRateLimitEnforcer known) || known.mayReadUser(contextOf(Optional.empty()));
    }

    @Override
    public RateLimitContext contextOf(Optional<WebCaller> caller) {
        return new DefaultRateLimitContext(
                definition.annotation(),
                definition.targetClass(),
                definition.method(),
                invocation.getArguments(),
                invocation.getThis(),
                caller);
    }

    @Override
    public CompletableFuture<Void> enforce(RateLimitContext context) {
        return enforcer.enforceAsync(context);
    }

    @Override
    public Object proceed() throws Throwable {
        // An invocation proceeds once; a reactive result may be subscribed to again.
        return invocation instanceof ProxyMethodInvocation proxied
                ? proxied.invocableClone().proceed()
                : invocation.proceed();
    }

    @Override
    public boolean hasFallbackFor(Throwable error) {
        return definition.fallback().map(fallback -> fallback.accepts(error)).orElse(false);
    }

    @Override
    public Object fallback(Throwable error) throws Throwable {
        Fallback fallback = definition
                .fallback()
                .orElseThrow(() -> new IllegalStateException(definition.method() + " has no fallback"));
        return fallback.call(invocation.getThis(), invocation.getArguments(), error);
    }
}
