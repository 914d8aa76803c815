package io.github.tollgaters.spring.core;

import io.github.tollgaters.spring.model.RateLimitPolicy;

/** Says which limit a call has. The default reads its annotation. */
@FunctionalInterface
public interface RateLimitPolicyProvider {

    /**
     * Returns the limit of a call.
     *
     * @param context the call
     * @return the limit, never null
     */
    RateLimitPolicy resolvePolicy(RateLimitContext context);
}
