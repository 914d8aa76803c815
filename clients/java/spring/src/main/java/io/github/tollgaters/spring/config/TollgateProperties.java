package io.github.tollgaters.spring.config;

import io.github.tollgaters.client.OnFailure;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties that begin with {@code tollgate}. A property that is unknown, wrong or contradicts another one is an
 * error when the app starts, and the message names it.
 *
 * @param enabled Whether anything is limited at all.
 * @param url The address of the service: http://HOST:PORT, https://HOST:PORT or unix:/path. Default: TOLLGATE_URL of
 *     the environment, then http://127.0.0.1:8080.
 * @param token The token of the app, if the service wants one. Default: TOLLGATE_TOKEN of the environment.
 * @param timeout The time that a whole call may take.
 * @param onFailure What is answered without an answer of the service: open admits, closed denies. Default: open.
 * @param closedNames The names of checks that are denied without an answer of the service, such as a login.
 * @param maxConnections How many connections to the service there may be.
 * @param policies Settings by the name of a check, such as tollgate.policies.search.enabled.
 * @param filters The limits of URLs.
 * @param filterOrder The place of these limits among the filters of the app. The default is after Spring Security, so
 *     that the principal is known.
 * @param problem Whose body a denied request gets: Tollgate's, or that of the Redis rate limiter starter.
 * @param includeHttpHeaders Whether responses get the limit headers that the service sends.
 * @param metricsEnabled Whether decisions are counted in the meter registry.
 * @param redisKeyPrefix Keeps counters of limits that come with the call apart: it is sent as the attribute prefix.
 *     The name is that of the Redis rate limiter starter.
 * @param failOpen The property of the Redis rate limiter starter: true is on-failure open, false is on-failure closed.
 * @param useAlgo Limits every request by its parameter userId, as the RLaaS Users Service does: fixed-window-algo or
 *     sliding-window-algo, with window-size and max-requests.
 * @param windowSize The window of use-algo in seconds.
 * @param maxRequests The limit of use-algo.
 */
@ConfigurationProperties(prefix = "tollgate")
public record TollgateProperties(
        @DefaultValue("true") boolean enabled,
        String url,
        String token,
        @DefaultValue("250ms") Duration timeout,
        OnFailure onFailure,
        @DefaultValue List<String> closedNames,
        @DefaultValue("64") int maxConnections,
        @DefaultValue Map<String, PolicyProperties> policies,
        @DefaultValue List<FilterProperties> filters,
        @DefaultValue("-50") int filterOrder,
        @DefaultValue("tollgate") ProblemBody problem,
        @DefaultValue("true") boolean includeHttpHeaders,
        @DefaultValue("true") boolean metricsEnabled,
        String redisKeyPrefix,
        Boolean failOpen,
        String useAlgo,
        Long windowSize,
        Long maxRequests) {

    private static final int MAX_FILTERS = 1_000;
    private static final int MAX_PREFIX = 256;
    private static final String PREFIX = "prefix";

    /**
     * Checks what can be wrong without the service, and fills in what follows from other properties.
     *
     * @param enabled as above
     * @param url as above
     * @param token as above
     * @param timeout as above
     * @param onFailure as above
     * @param closedNames as above
     * @param maxConnections as above
     * @param policies as above
     * @param filters as above
     * @param filterOrder as above
     * @param problem as above
     * @param includeHttpHeaders as above
     * @param metricsEnabled as above
     * @param redisKeyPrefix as above
     * @param failOpen as above
     * @param useAlgo as above
     * @param windowSize as above
     * @param maxRequests as above
     */
    public TollgateProperties {
        if (failOpen != null) {
            OnFailure meant = failOpen ? OnFailure.OPEN : OnFailure.CLOSED;
            if (onFailure != null && onFailure != meant) {
                throw wrong("tollgate.fail-open", "is " + failOpen + ", but tollgate.on-failure is "
                        + onFailure.name().toLowerCase(Locale.ROOT) + ": remove one of them");
            }
            onFailure = meant;
        }
        if (onFailure == null) {
            onFailure = OnFailure.OPEN;
        }
        if (timeout.compareTo(Duration.ofMillis(1)) < 0 || timeout.compareTo(Duration.ofSeconds(60)) > 0) {
            throw wrong("tollgate.timeout", "must be from 1ms to 60s");
        }
        if (maxConnections < 1) {
            throw wrong("tollgate.max-connections", "must be at least 1");
        }
        closedNames = List.copyOf(closedNames);
        if (closedNames.stream().anyMatch(String::isBlank)) {
            throw wrong("tollgate.closed-names", "has an empty name");
        }
        if (redisKeyPrefix != null && (redisKeyPrefix.isBlank() || redisKeyPrefix.length() > MAX_PREFIX)) {
            throw wrong("tollgate.redis-key-prefix", "must have 1 to " + MAX_PREFIX + " characters");
        }
        policies = Map.copyOf(policies);
        filters = List.copyOf(filters);
        if (filters.size() > MAX_FILTERS) {
            throw wrong("tollgate.filters", "has more than " + MAX_FILTERS + " entries");
        }
        UserLimit users = UserLimit.of(useAlgo, windowSize, maxRequests);
        for (int index = 0; index < filters.size(); index++) {
            FilterProperties filter = filters.get(index);
            String property = "tollgate.filters[" + index + "]";
            filter.check(property);
            if (redisKeyPrefix != null && !filter.quotas().isEmpty() && filter.attributes().containsKey(PREFIX)) {
                throw wrong(property + ".attributes." + PREFIX,
                        "is taken by tollgate.redis-key-prefix: rename one of them");
            }
            if (users != null && filter.effectiveName().equals(UserLimit.NAME)) {
                throw wrong(property + ".name", "is taken by tollgate.use-algo: give the filter another name");
            }
        }
        checkSharedNames(filters);
    }

    /**
     * Returns whether checks under a name are made: not if {@code tollgate.policies.NAME.enabled} is false.
     *
     * @param name the name of the check
     * @return whether it is made
     */
    public boolean isEnabled(String name) {
        PolicyProperties policy = policies.get(name);
        return enabled && (policy == null || policy.enabled());
    }

    /**
     * Returns the limit by the request's parameter {@code userId}, or nothing if there is no {@code use-algo}.
     *
     * @return the limit, or null
     */
    public UserLimit userLimit() {
        return UserLimit.of(useAlgo, windowSize, maxRequests);
    }

    /**
     * Returns attributes for a check with limits of its own: those that are given, and the {@code redis-key-prefix}.
     *
     * @param attributes the attributes of the check
     * @return the attributes to send
     */
    public Map<String, Object> withPrefix(Map<String, ?> attributes) {
        Map<String, Object> all = new HashMap<>(attributes);
        if (redisKeyPrefix != null && all.putIfAbsent(PREFIX, redisKeyPrefix) != null) {
            throw new IllegalArgumentException(
                    "the attribute prefix is taken by tollgate.redis-key-prefix: rename one of them");
        }
        return all;
    }

    /** Filters of one name are one limit, so they must agree on what it is. */
    private static void checkSharedNames(List<FilterProperties> filters) {
        Map<String, Integer> firsts = new HashMap<>();
        for (int index = 0; index < filters.size(); index++) {
            FilterProperties filter = filters.get(index);
            Integer first = firsts.putIfAbsent(filter.effectiveName(), index);
            if (first != null && !filters.get(first).quotas().equals(filter.quotas())) {
                throw wrong("tollgate.filters[" + index + "].quotas", "differ from those of filters[" + first
                        + "], which has the same name and so is the same limit: give one of them another name");
            }
        }
    }

    static InvalidPropertyException wrong(String property, String problem) {
        return new InvalidPropertyException(property, problem, null);
    }

    /** Returns what the properties are, without the token. */
    @Override
    public String toString() {
        List<String> names = new ArrayList<>();
        filters.forEach(filter -> names.add(filter.effectiveName()));
        return "TollgateProperties[enabled=" + enabled + ", url=" + url + ", timeout=" + timeout + ", onFailure="
                + onFailure + ", filters=" + names + "]";
    }
}
