package io.github.tollgaters.spring.core;

import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.util.concurrent.CompletableFuture;

/** Decides whether a call is allowed, and counts it. The default asks the service. */
@FunctionalInterface
public interface RateLimiter {

    /**
     * Decides about a call with a cost of 1.
     *
     * @param key what the call is counted by
     * @param policy the limit
     * @return the decision, never null
     */
    RateLimitDecision evaluate(String key, RateLimitPolicy policy);

    /**
     * Decides about a call.
     *
     * @param call the name, key, limit and cost
     * @return the decision, never null
     * @throws UnsupportedOperationException if the limiter only knows {@link #evaluate(String, RateLimitPolicy)}, and
     *     the call has another cost than 1
     */
    default RateLimitDecision evaluate(RateLimitCall call) {
        if (call.cost() != 1) {
            throw new UnsupportedOperationException(
                    getClass().getName() + " does not implement evaluate(RateLimitCall), so it knows no cost but 1");
        }
        return evaluate(call.key(), call.policy());
    }

    /**
     * Decides about a call. By default, a thread of the common pool waits for {@link #evaluate(RateLimitCall)}.
     *
     * @param call the name, key, limit and cost
     * @return the decision
     */
    default CompletableFuture<RateLimitDecision> evaluateAsync(RateLimitCall call) {
        return CompletableFuture.supplyAsync(() -> evaluate(call));
    }
}
