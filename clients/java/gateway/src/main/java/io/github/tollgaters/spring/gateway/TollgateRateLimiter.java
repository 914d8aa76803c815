package io.github.tollgaters.spring.gateway;

import io.github.tollgaters.client.CheckRequest;
import io.github.tollgaters.spring.config.InvalidPropertyException;
import io.github.tollgaters.spring.config.TollgateProperties;
import io.github.tollgaters.spring.core.RateLimitCall;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import io.github.tollgaters.spring.key.KeyAttributes;
import io.github.tollgaters.spring.metrics.GuardedMetricsRecorder;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import io.github.tollgaters.spring.model.RateLimitScope;
import io.github.tollgaters.spring.support.LimitInCall;
import io.github.tollgaters.spring.support.LimitSource;
import io.github.tollgaters.spring.support.RateLimitSwitches;
import io.github.tollgaters.spring.web.ProblemAnswer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.springframework.cloud.gateway.event.FilterArgsEvent;
import org.springframework.cloud.gateway.filter.ratelimit.AbstractRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.web.filter.reactive.ServerWebExchangeContextFilter;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * A rate limiter of Spring Cloud Gateway that asks Tollgate.
 *
 * <p>A route names it in its {@code RequestRateLimiter} filter:
 * <pre>
 * filters:
 * - name: RequestRateLimiter
 *   args:
 *     rate-limiter: "#{&#64;tollgateRateLimiter}"
 *     tollgate.name: search
 * </pre>
 *
 * <p>Each request is one check. No thread waits for its answer. Spring Cloud Gateway keeps one configuration per
 * route: two such filters on one route (also one of {@code default-filters}) share the last one.
 */
public class TollgateRateLimiter extends AbstractRateLimiter<TollgateRateLimiter.Config>
        implements LimitSource {
    /** The prefix of the arguments of the filter: {@code tollgate.name}, for example. */
    public static final String CONFIGURATION_PROPERTY_NAME = "tollgate";

    static final String PREFIX = CONFIGURATION_PROPERTY_NAME + ".";
    private static final Set<String> ARGUMENTS = Set.of("name", "cost", "quotas", "attribute");
    private static final Pattern UUID = Pattern.compile("\\p{XDigit}{8}(-\\p{XDigit}{4}){3}-\\p{XDigit}{12}");

    private final Map<String, Config> configurations = new Configurations();
    private final Set<String> routesWithArguments = ConcurrentHashMap.newKeySet();
    private final RateLimiter limiter;
    private final TollgateProperties properties;
    private final RateLimitMetricsRecorder recorder;

    /**
     * Creates a rate limiter.
     *
     * @param limiter asks the service
     * @param properties say which checks are made, and what answers contain
     * @param recorder records the decisions
     * @param configurationService the service of the gateway that reads the arguments of filters
     */
    public TollgateRateLimiter(
            RateLimiter limiter,
            TollgateProperties properties,
            RateLimitMetricsRecorder recorder,
            ConfigurationService configurationService) {
        super(Config.class, CONFIGURATION_PROPERTY_NAME, configurationService);
        this.limiter = limiter;
        this.properties = properties;
        this.recorder = new GuardedMetricsRecorder(recorder);
    }

    /** Refuses what cannot work, from properties as well as from routes in Java. */
    private static final class Configurations extends ConcurrentHashMap<String, Config> {
        @Override
        public Config put(String routeId, Config config) {
            config.check(routeId);
            return super.put(routeId, config);
        }
    }

    /**
     * Returns the configurations by the id of their route. Unlike that of the superclass, the map may be read while
     * the gateway refreshes its routes, and it takes no configuration that cannot work.
     */
    @Override
    public Map<String, Config> getConfig() {
        return configurations;
    }

    /**
     * Reads the arguments of a filter.
     *
     * @throws IllegalArgumentException if one of them is unknown or wrong; the gateway then does not start
     */
    @Override
    public void onApplicationEvent(FilterArgsEvent event) {
        Map<String, Object> arguments = new TreeMap<>();
        event.getArgs().forEach((argument, value) -> arguments.put(withIndex(argument), value));
        for (String argument : arguments.keySet()) {
            if (argument.startsWith(PREFIX) && !ARGUMENTS.contains(name(argument))) {
                throw new InvalidPropertyException("route " + event.getRouteId() + ":", "there is no argument " + argument
                        + "; known are " + new TreeSet<>(ARGUMENTS), null);
            }
        }
        if (arguments.keySet().stream().anyMatch(argument -> argument.startsWith(PREFIX))) {
            routesWithArguments.add(event.getRouteId());
        }
        super.onApplicationEvent(new FilterArgsEvent(event.getSource(), event.getRouteId(), arguments));
    }

    /** Returns the configurations that do not come from routes in Java. */
    Map<String, Config> configurationsOfArguments() {
        Map<String, Config> found = new TreeMap<>(configurations);
        found.keySet().retainAll(routesWithArguments);
        return found;
    }

    /** Removes a configuration unless it has been replaced. */
    void forget(String routeId, Config config) {
        if (configurations.remove(routeId, config)) {
            routesWithArguments.remove(routeId);
        }
    }

    @Override
    public String limited() {
        return "routes of the gateway";
    }

    @Override
    public List<LimitInCall> limitsInCalls() {
        List<LimitInCall> limits = new ArrayList<>();
        configurations.forEach((route, config) -> {
            String name = config.nameOf(route);
            if (!config.quotas.isEmpty() && properties.isEnabled(name)) {
                limits.add(new LimitInCall("route " + route, name, config.quotas));
            }
        });
        return limits;
    }

    /** The gateway turns the second entry of a list into {@code tollgate.quotas.1}, but binds {@code [1]}. */
    private static String withIndex(String argument) {
        return argument.startsWith(PREFIX) ? argument.replaceFirst("\\.(\\d+)$", "[$1]") : argument;
    }

    private static String name(String argument) {
        return argument.substring(PREFIX.length()).replaceFirst("\\[\\d+]$", "");
    }

    /**
     * Checks a request.
     *
     * @param routeId the id of the route, which is the name of the check unless {@code tollgate.name} is given
     * @param id the key of the request, as the key resolver returned it
     * @return the answer; an error if the key is empty or another mistake of the app keeps it from being counted
     */
    @Override
    public Mono<Response> isAllowed(String routeId, String id) {
        return Mono.deferContextual(context -> {
            Optional<ServerWebExchange> exchange = ServerWebExchangeContextFilter.getExchange(context);
            RateLimitCall call = call(routeId, id, exchange);
            String name = call.name().orElseThrow();
            if (!properties.isEnabled(name)) {
                return Mono.just(new Response(true, Map.of()));
            }
            long start = System.nanoTime();
            // A caller that leaves does not take back what is counted, so the call is not cancelled.
            return Mono.fromFuture(() -> limiter.evaluateAsync(call), true)
                    // The rest of the route must not run on a thread of the client.
                    .publishOn(Schedulers.parallel())
                    .doOnNext(decision -> recorder.recordDecision(name, call.policy(), decision, since(start)))
                    .map(decision -> decision.isAllowed() ? admitted(decision) : denied(answer(call, decision), exchange))
                    .onErrorResume(RateLimiterBackendException.class, error -> {
                        recorder.recordError(name, call.policy(), since(start), error);
                        return Mono.just(denied(ProblemAnswer.unavailable(), exchange));
                    });
        });
    }

    private static Duration since(long start) {
        return Duration.ofNanos(System.nanoTime() - start);
    }

    private Response admitted(RateLimitDecision decision) {
        return new Response(true, properties.includeHttpHeaders() ? decision.getHeaders() : Map.of());
    }

    private ProblemAnswer answer(RateLimitCall call, RateLimitDecision decision) {
        return ProblemAnswer.denied(call.name().orElse(null), call.policy(), decision, properties);
    }

    private static Response denied(ProblemAnswer answer, Optional<ServerWebExchange> exchange) {
        exchange.ifPresent(denied -> DenialFilter.mark(denied, answer));
        return new Response(false, answer.headers());
    }

    private RateLimitCall call(String routeId, String id, Optional<ServerWebExchange> exchange) {
        Config config = configurations.getOrDefault(routeId, Config.DEFAULT);
        String attribute = config.attribute != null
                ? config.attribute
                : ClientAddressKeyResolver.resolved(exchange, id) ? "ip" : "key";
        RateLimitScope scope = attribute.equals("ip") ? RateLimitScope.IP : RateLimitScope.USER;
        return new RateLimitCall(
                Optional.of(config.nameOf(routeId)),
                id,
                KeyAttributes.checked("route " + routeId, Map.of(attribute, id)),
                config.quotas.isEmpty()
                        ? RateLimitPolicy.ofService(scope)
                        : RateLimitPolicy.ofQuotas(config.quotas, scope),
                config.cost,
                header(exchange, "traceparent"),
                header(exchange, "tracestate"));
    }

    private static Optional<String> header(Optional<ServerWebExchange> exchange, String name) {
        return exchange.map(request -> request.getRequest().getHeaders().getFirst(name));
    }

    /** The configuration of a route: the arguments {@code tollgate.*} of its filter. */
    public static class Config {
        private static final Config DEFAULT = new Config();
        private static final long MOST_UNITS = 0xffff_ffffL;

        private String name;
        private long cost = 1;
        private List<String> quotas = List.of();
        private String attribute;

        /** Creates a configuration with the route's id as the name, a cost of 1, and the limits of the service. */
        public Config() {}

        private String nameOf(String routeId) {
            if (name != null) {
                return name;
            }
            if (UUID.matcher(routeId).matches()) {
                throw new IllegalStateException("route " + routeId + " has a random id, which differs between processes: "
                        + "give the route an id, or its filter a tollgate.name");
            }
            return routeId;
        }

        private void check(String routeId) {
            String checked = nameOf(routeId);
            try {
                CheckRequest.of(checked, Map.of(attribute != null ? attribute : "key", ""));
            } catch (IllegalArgumentException wrong) {
                throw new InvalidPropertyException("route " + routeId + ":", wrong.getMessage(), wrong);
            }
            if (!quotas.isEmpty() && !checked.matches(RateLimitSwitches.POLICY_NAME)) {
                throw new InvalidPropertyException("route " + routeId + ":", "tollgate.quotas need a tollgate.name of 1 to 64 "
                        + "letters, digits, `-`, `_` and `.`; " + (name == null ? "the id of the route" : "this one")
                        + " is no such name", null);
            }
        }

        /**
         * Returns the name of the check.
         *
         * @return the name, or null if it is the id of the route
         */
        public String getName() {
            return name;
        }

        /**
         * Sets the name of the check.
         *
         * @param name the name, which a policy of the service matches as {@code action}
         * @return this configuration
         */
        public Config setName(String name) {
            if (name == null || name.isBlank()) {
                throw new IllegalArgumentException("tollgate.name is blank");
            }
            this.name = name;
            return this;
        }

        /**
         * Returns the cost of a request.
         *
         * @return the units that a request takes
         */
        public long getCost() {
            return cost;
        }

        /**
         * Sets the cost of a request.
         *
         * @param cost the units that a request takes, from 1 to 2^32-1
         * @return this configuration
         */
        public Config setCost(long cost) {
            if (cost < 1 || cost > MOST_UNITS) {
                throw new IllegalArgumentException("tollgate.cost is not from 1 to " + MOST_UNITS + ": " + cost);
            }
            this.cost = cost;
            return this;
        }

        /**
         * Returns the limits that are sent with each check.
         *
         * @return the quotas; empty if the policies of the service decide
         */
        public List<String> getQuotas() {
            return quotas;
        }

        /**
         * Sets the limits that are sent with each check. The service then needs {@code --caller-quotas}.
         *
         * @param quotas one to eight, such as {@code 100/1m}
         * @return this configuration
         */
        public Config setQuotas(List<String> quotas) {
            if (quotas.isEmpty()) {
                throw new IllegalArgumentException("tollgate.quotas is empty: leave it out");
            }
            try {
                this.quotas = RateLimitPolicy.ofQuotas(quotas, RateLimitScope.GLOBAL).getQuotas();
            } catch (IllegalArgumentException wrong) {
                throw new IllegalArgumentException("tollgate.quotas: " + wrong.getMessage(), wrong);
            }
            return this;
        }

        /**
         * Returns the attribute that holds the key.
         *
         * @return its name, or null if it is {@code ip} for an address of {@link ClientAddressKeyResolver} and
         *     {@code key} otherwise
         */
        public String getAttribute() {
            return attribute;
        }

        /**
         * Sets the attribute that holds the key.
         *
         * @param attribute its name, such as {@code user}
         * @return this configuration
         */
        public Config setAttribute(String attribute) {
            if (attribute == null || attribute.isBlank()) {
                throw new IllegalArgumentException("tollgate.attribute is blank");
            }
            if (attribute.equals("action")) {
                throw new IllegalArgumentException("tollgate.attribute is action, the name of the check: use tollgate.name");
            }
            this.attribute = attribute;
            return this;
        }
    }
}
