package io.github.tollgaters.spring.support;

import io.github.tollgaters.client.CheckRequest;
import io.github.tollgaters.client.Decision;
import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.spring.core.RateLimitCall;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import io.github.tollgaters.spring.key.KeyAttributes;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Asks the service. A call without an answer is admitted or refused, as the client is set; a refused one is a {@link
 * RateLimiterBackendException}.
 */
public final class TollgateRateLimiter implements RateLimiter {

    /** The name under which limits in a call count that have none. */
    public static final String UNNAMED = "ratelimiter";

    private final Tollgate tollgate;
    private final Function<Map<String, ?>, Map<String, Object>> prefixed;

    /**
     * Makes a limiter.
     *
     * @param tollgate the client
     */
    public TollgateRateLimiter(Tollgate tollgate) {
        this(tollgate, Map::copyOf);
    }

    /**
     * Makes a limiter that changes the attributes of limits in a call, such as by a prefix.
     *
     * @param tollgate the client
     * @param prefixed returns the changed attributes
     */
    public TollgateRateLimiter(Tollgate tollgate, Function<Map<String, ?>, Map<String, Object>> prefixed) {
        this.tollgate = Objects.requireNonNull(tollgate, "tollgate");
        this.prefixed = Objects.requireNonNull(prefixed, "prefixed");
    }

    @Override
    public RateLimitDecision evaluate(String key, RateLimitPolicy policy) {
        Objects.requireNonNull(key, "key");
        Map<String, Object> attributes = KeyAttributes.checked("RateLimiter", Map.of("key", key));
        return evaluate(new RateLimitCall(
                Optional.empty(), key, attributes, policy, 1, Optional.empty(), Optional.empty()));
    }

    @Override
    public RateLimitDecision evaluate(RateLimitCall call) {
        return decisionOf(call, tollgate.check(requestOf(call)));
    }

    @Override
    public CompletableFuture<RateLimitDecision> evaluateAsync(RateLimitCall call) {
        return tollgate.checkAsync(requestOf(call)).thenApply(decision -> decisionOf(call, decision));
    }

    private CheckRequest requestOf(RateLimitCall call) {
        boolean isInCall = !call.policy().getQuotas().isEmpty();
        if (!isInCall && call.name().isEmpty()) {
            throw new IllegalArgumentException(
                    "a call without a limit needs a name, which a policy of the service matches");
        }
        Map<String, ?> attributes = isInCall ? prefixed.apply(call.attributes()) : call.attributes();
        CheckRequest request = CheckRequest.of(call.name().orElse(UNNAMED), attributes)
                .cost(call.cost())
                .trace(call.traceparent().orElse(null), call.tracestate().orElse(null));
        return isInCall ? request.quotas(call.policy().getQuotas()) : request;
    }

    private static RateLimitDecision decisionOf(RateLimitCall call, Decision decision) {
        if (!decision.allowed() && decision.failure().isPresent()) {
            throw new RateLimiterBackendException("no decision about the limit " + call.name().orElse(UNNAMED) + ": "
                    + decision.failure().get() + "; such calls are refused");
        }
        return RateLimitDecision.of(decision);
    }
}
