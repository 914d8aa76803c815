package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.config.FilterProperties;
import io.github.tollgaters.spring.config.InvalidPropertyException;
import io.github.tollgaters.spring.config.ProblemBody;
import io.github.tollgaters.spring.config.TollgateProperties;
import io.github.tollgaters.spring.config.UserLimit;
import io.github.tollgaters.spring.core.RateLimitCall;
import io.github.tollgaters.spring.key.KeyAttributes;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import io.github.tollgaters.spring.model.RateLimitScope;
import io.github.tollgaters.spring.web.ProblemAnswer;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.springframework.expression.EvaluationContext;

/**
 * One limit of URLs, read from the properties.
 *
 * @param property the name of the property, for errors
 * @param name the name of the check
 * @param pattern the paths
 * @param methods the methods; all if there are none
 * @param policy the limits of the call, or the policies of the service
 * @param attributes the key; the address if there are none
 * @param cost the units
 * @param condition whether a request is limited, or null
 * @param headers whether responses get the limit headers that the service sends
 * @param problem whose body a denial has
 * @param isOfUsers whether it is the limit of the RLaaS Users Service
 * @param contexts what expressions see of a request
 */
record UrlFilter(
        String property,
        String name,
        UrlPattern pattern,
        List<String> methods,
        RateLimitPolicy policy,
        Map<String, FilterExpression> attributes,
        FilterExpression cost,
        FilterExpression condition,
        boolean headers,
        ProblemBody problem,
        boolean isOfUsers,
        Function<FilterRequest, EvaluationContext> contexts) {

    private static final String ADDRESS = "ip";
    private static final String COST = "must be a whole number from 0 to 4294967295";

    /** Reads a filter; an error names the property. */
    static UrlFilter of(FilterProperties filter, String property, TollgateProperties all,
            Function<FilterRequest, EvaluationContext> contexts) {
        Map<String, FilterExpression> attributes = new LinkedHashMap<>();
        filter.attributes().forEach((attribute, text) ->
                attributes.put(attribute, FilterExpression.parseKey(text, property + ".attributes." + attribute)));
        if (filter.key() != null) {
            attributes.put("key", FilterExpression.parseKey(filter.key(), property + ".key"));
        }
        FilterExpression cost = FilterExpression.parse(filter.cost(), property + ".cost");
        if (cost.isPlain()) {
            try {
                costOf(filter.cost(), cost.property());
            } catch (FilterException error) {
                throw new InvalidPropertyException(cost.property(), COST, null);
            }
        }
        FilterExpression condition = null;
        if (filter.condition() != null) {
            condition = FilterExpression.parse(filter.condition(), property + ".condition");
            if (!condition.isSingle()) {
                throw new InvalidPropertyException(
                        condition.property(), "`" + filter.condition() + "` must be one expression #{...}", null);
            }
        }
        RateLimitScope scope = attributes.isEmpty() ? RateLimitScope.IP
                : attributes.values().stream().allMatch(FilterExpression::isPlain) ? RateLimitScope.GLOBAL
                : RateLimitScope.USER;
        RateLimitPolicy policy = filter.quotas().isEmpty() ? RateLimitPolicy.ofService(scope)
                : RateLimitPolicy.ofQuotas(filter.quotas(), scope);
        boolean headers = filter.headers() != null ? filter.headers() : all.includeHttpHeaders();
        UrlPattern pattern = UrlPattern.parse(filter.url(), property + ".url");
        return new UrlFilter(property, filter.effectiveName(), pattern, filter.methods(), policy, attributes,
                cost, condition, headers, all.problem(), false, contexts);
    }

    /** Makes the filter of the RLaaS Users Service, for every path. */
    static UrlFilter of(UserLimit limit, TollgateProperties all,
            Function<FilterRequest, EvaluationContext> contexts) {
        String property = "tollgate.use-algo";
        Map<String, FilterExpression> attributes = Map.of(UserLimit.PARAMETER,
                FilterExpression.parse("#{params['" + UserLimit.PARAMETER + "']}", property));
        RateLimitPolicy policy = RateLimitPolicy.ofQuotas(List.of(limit.quota()), RateLimitScope.USER);
        return new UrlFilter(property, UserLimit.NAME, UrlPattern.parse("/**", property), List.of(), policy,
                attributes, FilterExpression.parse("1", property), null, all.includeHttpHeaders(), all.problem(), true, contexts);
    }

    /** Returns whether the filter limits the path and the method. */
    boolean matches(FilterRequest request) {
        return matchesMethod(request.method()) && pattern.matches(request.paths());
    }

    /** Returns whether an expression of the filter may ask who the caller is. */
    boolean mayReadPrincipal() {
        return Stream.concat(Stream.of(cost), attributes.values().stream()).anyMatch(FilterExpression::mayReadPrincipal)
                || (condition != null && condition.mayReadPrincipal());
    }

    private boolean matchesMethod(String method) {
        // Handlers of GET answer HEAD as well.
        return methods.isEmpty() || methods.stream().anyMatch(method::equalsIgnoreCase)
                || ("HEAD".equalsIgnoreCase(method) && methods.contains("GET"));
    }

    /**
     * Returns the question to the limiter about a request.
     *
     * @param request a request that the filter matches
     * @return the question; empty if the condition is false
     * @throws IllegalStateException if an expression fails or has no value: the request is not admitted
     */
    public Optional<RateLimitCall> call(FilterRequest request) {
        EvaluationContext context = contexts.apply(request);
        if (condition != null && !isTrue(condition.evaluate(context))) {
            return Optional.empty();
        }
        Map<String, Object> values = new LinkedHashMap<>();
        if (attributes.isEmpty()) {
            values.put(ADDRESS, request.address());
        }
        attributes.forEach((attribute, expression) -> values.put(attribute, expression.evaluate(context)));
        long units = costOf(cost.evaluate(context), cost.property());
        Map<String, Object> checked = KeyAttributes.checked(property, values);
        return Optional.of(new RateLimitCall(Optional.of(name), keyOf(checked), checked, policy, units,
                Optional.ofNullable(request.header("traceparent")), Optional.ofNullable(request.header("tracestate"))));
    }

    /**
     * Returns the answer to a request that cannot be counted because the caller left something out. What the app itself
     * cannot say is an exception of {@link #call} instead.
     *
     * @param request a request that the filter matches
     * @return the answer; empty if nothing is missing
     */
    public Optional<FilterAnswer> refusal(FilterRequest request) {
        if (!isOfUsers) {
            return Optional.empty();
        }
        String user = request.param(UserLimit.PARAMETER);
        return user != null && !user.isEmpty() ? Optional.empty() : Optional.of(FilterAnswer.of(
                ProblemAnswer.badRequest("the parameter `" + UserLimit.PARAMETER + "` is missing")));
    }

    /**
     * Returns the answer to a request that was denied.
     *
     * @param decision the denial
     * @return the answer
     */
    public FilterAnswer denial(RateLimitDecision decision) {
        ProblemAnswer answer = ProblemAnswer.denied(name, policy, decision, problem, headers);
        return isOfUsers && decision.getFailure().isEmpty() ? FilterAnswer.sentence(answer) : FilterAnswer.of(answer);
    }

    /**
     * Returns the answer to a request that is not admitted because the service did not decide.
     *
     * @return the answer
     */
    public static FilterAnswer unavailable() {
        return FilterAnswer.of(ProblemAnswer.unavailable());
    }

    /**
     * Returns the answer to a request whose path no filter can read.
     *
     * @return the answer
     */
    public static FilterAnswer unreadablePath() {
        return FilterAnswer.of(ProblemAnswer.badRequest("the path is encoded wrongly"));
    }

    private boolean isTrue(Object value) {
        if (value instanceof Boolean truth) {
            return truth;
        }
        throw new FilterException(condition.property(), "is a " + value.getClass().getName() + ", not true or false", null);
    }

    /** Returns a cost; the service takes up to 2^32-1. */
    private static long costOf(Object value, String property) {
        try {
            long cost = value instanceof Integer || value instanceof Long || value instanceof Short
                    ? ((Number) value).longValue() : Long.parseLong(value.toString());
            if (cost >= 0 && cost < 1L << 32) {
                return cost;
            }
        } catch (NumberFormatException error) {
            // The message must not repeat a text of the request.
        }
        throw new FilterException(property, COST, null);
    }

    /** Returns the attributes as one text, for limiters that take no more than a key. */
    private String keyOf(Map<String, Object> values) {
        return name + "?" + new TreeMap<>(values).entrySet().stream()
                .map(entry -> encoded(entry.getKey()) + "=" + encoded(entry.getValue()))
                .collect(Collectors.joining("&"));
    }

    private static String encoded(Object value) {
        if (value instanceof List<?> elements) {
            return elements.stream().map(UrlFilter::encoded).collect(Collectors.joining(","));
        }
        return URLEncoder.encode(value.toString(), StandardCharsets.UTF_8);
    }

    /** Returns the name and the pattern. */
    @Override
    public String toString() {
        return "UrlFilter[" + name + ", " + pattern + "]";
    }
}
