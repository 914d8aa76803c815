package io.github.tollgaters.spring.support;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.web.WebCaller;
import java.lang.reflect.Method;
import java.util.Objects;
import java.util.Optional;

/** A call of a limited method. */
public final class DefaultRateLimitContext implements RateLimitContext {

    private final RateLimit annotation;
    private final Class<?> targetClass;
    private final Method method;
    private final Object[] arguments;
    private final Object target;
    private final Optional<WebCaller> caller;

    /**
     * Makes a call outside of web requests.
     *
     * @param annotation the annotation
     * @param targetClass the class of the bean
     * @param method the method
     * @param arguments the arguments, or null
     * @param target the bean, or null
     */
    public DefaultRateLimitContext(
            RateLimit annotation, Class<?> targetClass, Method method, Object[] arguments, Object target) {
        this(annotation, targetClass, method, arguments, target, Optional.empty());
    }

    /**
     * Makes a call.
     *
     * @param annotation the annotation
     * @param targetClass the class of the bean
     * @param method the method
     * @param arguments the arguments, or null
     * @param target the bean, or null
     * @param caller the caller of the web request
     */
    public DefaultRateLimitContext(
            RateLimit annotation,
            Class<?> targetClass,
            Method method,
            Object[] arguments,
            Object target,
            Optional<WebCaller> caller) {
        this.annotation = Objects.requireNonNull(annotation, "annotation");
        this.targetClass = Objects.requireNonNull(targetClass, "targetClass");
        this.method = Objects.requireNonNull(method, "method");
        this.arguments = arguments == null ? new Object[0] : arguments.clone();
        this.target = target;
        this.caller = Objects.requireNonNull(caller, "caller");
    }

    @Override
    public RateLimit getAnnotation() {
        return annotation;
    }

    @Override
    public Class<?> getTargetClass() {
        return targetClass;
    }

    @Override
    public Method getMethod() {
        return method;
    }

    @Override
    public Object[] getArguments() {
        return arguments.clone();
    }

    @Override
    public Object getTarget() {
        return target;
    }

    @Override
    public Optional<WebCaller> getCaller() {
        return caller;
    }
}
