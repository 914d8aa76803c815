package io.github.tollgaters.spring.core;

import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.model.RateLimitDecision;
import java.util.concurrent.CompletableFuture;

/** Resolves the limit and the key of a call, and asks the {@link RateLimiter}. */
public interface RateLimitEnforcer {

    /**
     * Decides about a call, and counts it.
     *
     * @param context the call
     * @return the decision; a denial is no exception
     * @throws io.github.tollgaters.spring.exception.RateLimiterBackendException if there is no decision, and such calls
     *     are not admitted
     */
    RateLimitDecision evaluate(RateLimitContext context);

    /**
     * Decides about a call, counts it, and throws if it is denied.
     *
     * @param context the call
     * @throws RateLimitExceededException if the call is denied
     * @throws io.github.tollgaters.spring.exception.RateLimiterBackendException if there is no decision, and such calls
     *     are not admitted
     */
    void enforce(RateLimitContext context) throws RateLimitExceededException;

    /**
     * Does the same as {@link #enforce}, but no thread waits. By default, a thread of the common pool does.
     *
     * @param context the call
     * @return a future that fails with the exceptions of {@link #enforce}
     */
    default CompletableFuture<Void> enforceAsync(RateLimitContext context) {
        return CompletableFuture.runAsync(() -> enforce(context));
    }
}
