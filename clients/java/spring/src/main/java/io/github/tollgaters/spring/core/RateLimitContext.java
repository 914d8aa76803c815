package io.github.tollgaters.spring.core;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.web.WebCaller;
import java.lang.reflect.Method;
import java.util.Optional;

/** A call of a limited method. */
public interface RateLimitContext {

    /**
     * Returns the annotation that limits the call.
     *
     * @return the annotation
     */
    RateLimit getAnnotation();

    /**
     * Returns the class of the bean, not that of a proxy.
     *
     * @return the class
     */
    Class<?> getTargetClass();

    /**
     * Returns the method that is called, as the class of the bean declares or inherits it.
     *
     * @return the method
     */
    Method getMethod();

    /**
     * Returns a copy of the arguments.
     *
     * @return the arguments
     */
    Object[] getArguments();

    /**
     * Returns the bean.
     *
     * @return the bean, or null if the proxy has none
     */
    Object getTarget();

    /**
     * Returns the caller of the web request in which the call happens.
     *
     * @return the caller; empty outside of web requests
     */
    default Optional<WebCaller> getCaller() {
        return Optional.empty();
    }
}
