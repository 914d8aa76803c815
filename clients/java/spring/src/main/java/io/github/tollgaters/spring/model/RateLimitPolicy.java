package io.github.tollgaters.spring.model;

import java.time.Duration;
import java.util.List;
import java.util.Objects;

/** The limit of a call: a number of calls in a window, limits in the notation of the service, or its own policies. */
public final class RateLimitPolicy {

    private static final int MOST_QUOTAS = 8;

    private final int limit;
    private final Duration window;
    private final List<String> quotas;
    private final RateLimitScope scope;

    /**
     * Makes a limit of calls in a fixed window.
     *
     * @param limit the calls that are allowed in a window, at least 1
     * @param window the length, a whole number of milliseconds
     * @param scope GLOBAL, USER or IP
     */
    public RateLimitPolicy(int limit, Duration window, String scope) {
        if (limit <= 0) {
            throw new IllegalArgumentException("a limit must be 1 or more, got " + limit);
        }
        if (window == null || window.isNegative() || window.isZero()) {
            throw new IllegalArgumentException("a window must be longer than 0, got " + window);
        }
        if (window.toNanosPart() % 1_000_000 != 0) {
            throw new IllegalArgumentException("a window must be a whole number of milliseconds, got " + window);
        }
        this.limit = limit;
        this.window = window;
        this.quotas = List.of(limit + "/" + window.toMillis() + "ms");
        this.scope = RateLimitScope.from(scope);
    }

    private RateLimitPolicy(List<String> quotas, RateLimitScope scope) {
        this.limit = 0;
        this.window = Duration.ZERO;
        this.quotas = List.copyOf(quotas);
        this.scope = Objects.requireNonNull(scope, "scope");
    }

    /**
     * Makes limits in the notation of the service.
     *
     * @param quotas one to eight limits, such as {@code 5/1m}
     * @param scope whom they count, as a label
     * @return the limits
     */
    public static RateLimitPolicy ofQuotas(List<String> quotas, RateLimitScope scope) {
        if (quotas.isEmpty() || quotas.size() > MOST_QUOTAS) {
            throw new IllegalArgumentException("a call has 1 to " + MOST_QUOTAS + " quotas, got " + quotas.size());
        }
        for (String quota : quotas) {
            if (quota == null || quota.isBlank()) {
                throw new IllegalArgumentException("a quota is empty; write it as \"5/1m\"");
            }
        }
        return new RateLimitPolicy(quotas, scope);
    }

    /**
     * Makes a limit that the policies of the service decide.
     *
     * @param scope whom it counts, as a label
     * @return the limit
     */
    public static RateLimitPolicy ofService(RateLimitScope scope) {
        return new RateLimitPolicy(List.of(), scope);
    }

    /**
     * Returns the calls that are allowed in a window.
     *
     * @return the number; 0 if the limit is no single number of calls in a window
     */
    public int getLimit() {
        return limit;
    }

    /**
     * Returns the length of a window.
     *
     * @return the length; zero if the limit is no single number of calls in a window
     */
    public Duration getWindow() {
        return window;
    }

    /**
     * Returns the limits in the notation of the service.
     *
     * @return the limits; none if the policies of the service decide
     */
    public List<String> getQuotas() {
        return quotas;
    }

    /**
     * Returns whom the limit counts.
     *
     * @return GLOBAL, USER or IP
     */
    public String getScope() {
        return scope.getScope();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof RateLimitPolicy that
                && limit == that.limit
                && window.equals(that.window)
                && quotas.equals(that.quotas)
                && scope == that.scope;
    }

    @Override
    public int hashCode() {
        return Objects.hash(limit, window, quotas, scope);
    }

    @Override
    public String toString() {
        String what = quotas.isEmpty() ? "the policies of the service" : String.join(",", quotas);
        return "RateLimitPolicy{" + what + ", scope=" + scope + '}';
    }
}
