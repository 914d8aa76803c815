package io.github.tollgaters.spring.exception;

import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.io.Serial;
import java.util.Objects;

/** Says that a call was denied. A web request is then answered 429. The message does not contain the key. */
public final class RateLimitExceededException extends RuntimeException {

    @Serial
    private static final long serialVersionUID = 1L;

    /** The name of the limit; null if it has none. */
    private final String name;
    private final transient String key;
    private final transient RateLimitPolicy policy;
    private final transient RateLimitDecision decision;

    /**
     * Makes an exception for a limit without a name.
     *
     * @param key the key that was counted
     * @param policy the limit
     * @param decision the denial
     */
    public RateLimitExceededException(String key, RateLimitPolicy policy, RateLimitDecision decision) {
        this(null, key, policy, decision);
    }

    /**
     * Makes an exception.
     *
     * @param name the name of the limit, or null
     * @param key the key that was counted
     * @param policy the limit
     * @param decision the denial
     */
    public RateLimitExceededException(String name, String key, RateLimitPolicy policy, RateLimitDecision decision) {
        super(message(name, decision));
        if (decision.isAllowed()) {
            throw new IllegalArgumentException("the decision allows the call; this exception is for denials");
        }
        this.name = name == null || name.isBlank() ? null : name;
        this.key = Objects.requireNonNull(key, "key");
        this.policy = Objects.requireNonNull(policy, "policy");
        this.decision = decision;
    }

    private static String message(String name, RateLimitDecision decision) {
        String what = name == null || name.isBlank() ? "rate limit exceeded" : "rate limit exceeded: " + name;
        return what + ", " + decision.retryHint();
    }

    /**
     * Returns the name of the limit.
     *
     * @return the name, or null if it has none
     */
    public String getName() {
        return name;
    }

    /**
     * Returns the key that was counted. It may be personal data, so keep it out of logs and answers.
     *
     * @return the key
     */
    public String getKey() {
        return key;
    }

    /**
     * Returns the limit.
     *
     * @return the limit
     */
    public RateLimitPolicy getPolicy() {
        return policy;
    }

    /**
     * Returns the denial.
     *
     * @return the denial
     */
    public RateLimitDecision getDecision() {
        return decision;
    }
}
