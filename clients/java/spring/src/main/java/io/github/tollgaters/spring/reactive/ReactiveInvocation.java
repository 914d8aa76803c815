package io.github.tollgaters.spring.reactive;

import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.web.WebCaller;
import java.lang.reflect.Method;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A call of a limited method whose result comes later. Each of its steps may run several times. */
public interface ReactiveInvocation {

    /**
     * Returns the method of the bean.
     *
     * @return the method
     */
    Method getMethod();

    /**
     * Says whether the limit may ask for the user of the caller.
     *
     * @return false if it certainly does not, so that the user needs no lookup
     */
    default boolean mayReadUser() {
        return true;
    }

    /**
     * Returns the call as seen by resolvers.
     *
     * @param caller the caller of the web request, if there is one
     * @return the context of the call
     */
    RateLimitContext contextOf(Optional<WebCaller> caller);

    /**
     * Checks the limit. No thread waits.
     *
     * @param context the call, from {@link #contextOf}
     * @return a future that fails with {@link RateLimitExceededException},
     *     {@link io.github.tollgaters.spring.exception.RateLimiterBackendException}, or an error of the app
     */
    CompletableFuture<Void> enforce(RateLimitContext context);

    /**
     * Calls the method.
     *
     * @return its result
     * @throws Throwable what the method throws
     */
    Object proceed() throws Throwable;

    /**
     * Says whether the annotation has a fallback that accepts an error.
     *
     * @param error the error of {@link #enforce}
     * @return whether {@link #fallback} may be called
     */
    boolean hasFallbackFor(Throwable error);

    /**
     * Calls the fallback instead of the method.
     *
     * @param error the error of {@link #enforce}
     * @return the result of the fallback
     * @throws Throwable what the fallback throws
     */
    Object fallback(Throwable error) throws Throwable;
}
