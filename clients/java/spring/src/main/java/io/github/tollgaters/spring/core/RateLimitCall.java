package io.github.tollgaters.spring.core;

import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * A question to the limiter.
 *
 * @param name the name of the check; empty for a limit in the call that has none
 * @param key the key as a text, for exceptions
 * @param attributes what the call is counted by
 * @param policy the limit
 * @param cost the units that the call takes
 * @param traceparent the trace that the call belongs to
 * @param tracestate the state of that trace
 */
public record RateLimitCall(
        Optional<String> name,
        String key,
        Map<String, ?> attributes,
        RateLimitPolicy policy,
        long cost,
        Optional<String> traceparent,
        Optional<String> tracestate) {

    /**
     * Checks that nothing is null and that the cost is not negative.
     *
     * @param name as above; javadoc asks for it again, because it does not see that this constructor is the canonical
     *     one if a type has a wildcard
     * @param key as above
     * @param attributes as above
     * @param policy as above
     * @param cost as above
     * @param traceparent as above
     * @param tracestate as above
     */
    public RateLimitCall {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(key, "key");
        attributes = Map.copyOf(attributes);
        Objects.requireNonNull(policy, "policy");
        Objects.requireNonNull(traceparent, "traceparent");
        Objects.requireNonNull(tracestate, "tracestate");
        if (cost < 0) {
            throw new IllegalArgumentException("the cost of a call must be 0 or more, got " + cost);
        }
    }

    /** Returns a text without the key and the attributes, which belong in no log. */
    @Override
    public String toString() {
        return "RateLimitCall{name=" + name.orElse(null) + ", policy=" + policy + ", cost=" + cost + '}';
    }
}
