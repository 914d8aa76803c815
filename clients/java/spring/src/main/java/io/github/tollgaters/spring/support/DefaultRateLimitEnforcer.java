package io.github.tollgaters.spring.support;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.core.RateLimitCall;
import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.core.RateLimitEnforcer;
import io.github.tollgaters.spring.core.RateLimitPolicyProvider;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.key.DefaultRateLimitKeyResolver;
import io.github.tollgaters.spring.key.KeyAttributes;
import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import io.github.tollgaters.spring.metrics.GuardedMetricsRecorder;
import io.github.tollgaters.spring.metrics.NoOpRateLimitMetricsRecorder;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.expression.BeanResolver;

/** Resolves the limit, the key and the cost of a call, asks the limiter, and records the decision. */
public final class DefaultRateLimitEnforcer implements RateLimitEnforcer {

    private static final String METHOD = "method";

    private final RateLimiter rateLimiter;
    private final RateLimitPolicyProvider policyProvider;
    private final KeyResolvers keyResolvers;
    private final RateLimitMetricsRecorder metrics;
    private final RateLimitSwitches switches;
    private final BeanResolver beans;
    private final Map<Site, CostExpression> costs = new ConcurrentHashMap<>();

    /**
     * Makes an enforcer that records nothing.
     *
     * @param rateLimiter what decides
     * @param policyProvider what resolves limits
     * @param defaultKeyResolver what resolves keys if the annotation names no resolver
     * @param keyResolvers the resolvers that annotations name
     */
    public DefaultRateLimitEnforcer(
            RateLimiter rateLimiter,
            RateLimitPolicyProvider policyProvider,
            RateLimitKeyResolver defaultKeyResolver,
            List<RateLimitKeyResolver> keyResolvers) {
        this(rateLimiter, policyProvider, defaultKeyResolver, keyResolvers, new NoOpRateLimitMetricsRecorder());
    }

    /**
     * Makes an enforcer.
     *
     * @param rateLimiter what decides
     * @param policyProvider what resolves limits
     * @param defaultKeyResolver what resolves keys if the annotation names no resolver
     * @param keyResolvers the resolvers that annotations name
     * @param metricsRecorder what records decisions
     */
    public DefaultRateLimitEnforcer(
            RateLimiter rateLimiter,
            RateLimitPolicyProvider policyProvider,
            RateLimitKeyResolver defaultKeyResolver,
            List<RateLimitKeyResolver> keyResolvers,
            RateLimitMetricsRecorder metricsRecorder) {
        this(
                rateLimiter,
                policyProvider,
                new KeyResolvers(defaultKeyResolver, keyResolvers),
                metricsRecorder,
                new RateLimitSwitches(true, Map.of()),
                null);
    }

    /**
     * Makes an enforcer with switches.
     *
     * @param rateLimiter what decides
     * @param policyProvider what resolves limits
     * @param keyResolvers what resolves keys
     * @param metricsRecorder what records decisions
     * @param switches which limits are enforced
     * @param beans where expressions of costs find beans, or null
     */
    public DefaultRateLimitEnforcer(
            RateLimiter rateLimiter,
            RateLimitPolicyProvider policyProvider,
            KeyResolvers keyResolvers,
            RateLimitMetricsRecorder metricsRecorder,
            RateLimitSwitches switches,
            BeanResolver beans) {
        this.rateLimiter = Objects.requireNonNull(rateLimiter, "rateLimiter");
        this.policyProvider = Objects.requireNonNull(policyProvider, "policyProvider");
        this.keyResolvers = Objects.requireNonNull(keyResolvers, "keyResolvers");
        this.metrics = new GuardedMetricsRecorder(metricsRecorder);
        this.switches = Objects.requireNonNull(switches, "switches");
        this.beans = beans;
    }

    private record Site(Method method, Class<?> targetClass, String text) {}

    @Override
    public RateLimitDecision evaluate(RateLimitContext context) {
        return isOff(context) ? admitted() : decide(context, callOf(context));
    }

    @Override
    public void enforce(RateLimitContext context) throws RateLimitExceededException {
        if (isOff(context)) {
            return;
        }
        RateLimitCall call = callOf(context);
        conclude(context, call, decide(context, call));
    }

    @Override
    public CompletableFuture<Void> enforceAsync(RateLimitContext context) {
        if (isOff(context)) {
            return CompletableFuture.completedFuture(null);
        }
        try {
            RateLimitCall call = callOf(context);
            long start = System.nanoTime();
            return rateLimiter.evaluateAsync(call).handle((decision, error) -> {
                conclude(context, call, recorded(context, call, start, decision, error));
                return null;
            });
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    /**
     * Says whether the limit of a call may ask for the user of its caller.
     *
     * @param context the call
     * @return false if it certainly does not
     */
    public boolean mayReadUser(RateLimitContext context) {
        RateLimit annotation = context.getAnnotation();
        String place = Places.of(context.getMethod(), context.getTargetClass());
        return !(policyProvider instanceof AnnotationRateLimitPolicyProvider)
                || !(keyResolvers.resolve(place, annotation.keyResolver()) instanceof DefaultRateLimitKeyResolver)
                || (annotation.key().isBlank() && annotation.scope().strip().equalsIgnoreCase("USER"));
    }

    private boolean isOff(RateLimitContext context) {
        RateLimit annotation = context.getAnnotation();
        return !annotation.enabled() || !switches.isEnabled(annotation.name());
    }

    private static RateLimitDecision admitted() {
        return new RateLimitDecision(true, 0, null, null);
    }

    private RateLimitCall callOf(RateLimitContext context) {
        RateLimit annotation = context.getAnnotation();
        String place = Places.of(context.getMethod(), context.getTargetClass());
        RateLimitPolicy policy = policyProvider.resolvePolicy(context);
        if (policy == null) {
            throw new IllegalStateException(place + ": the RateLimitPolicyProvider returned null");
        }
        Map<String, ?> attributes = attributesOf(context, place, policy);
        long cost = costs.computeIfAbsent(
                        new Site(context.getMethod(), context.getTargetClass(), annotation.cost()),
                        site -> CostExpression.parse(site.text(), site.method(), site.targetClass()))
                .valueOf(context, beans);
        boolean isNamed = !annotation.name().isBlank();
        return new RateLimitCall(
                isNamed ? Optional.of(annotation.name()) : Optional.empty(),
                DefaultRateLimitKeyResolver.textOf(attributes),
                isNamed ? attributes : withMethod(context, place, attributes),
                policy,
                cost,
                context.getCaller().flatMap(caller -> caller.getHeader("traceparent")),
                context.getCaller().flatMap(caller -> caller.getHeader("tracestate")));
    }

    private Map<String, ?> attributesOf(RateLimitContext context, String place, RateLimitPolicy policy) {
        RateLimit annotation = context.getAnnotation();
        RateLimitKeyResolver resolver = keyResolvers.resolve(place, annotation.keyResolver());
        Map<String, ?> attributes = resolver.resolveAttributes(context);
        boolean isByDefault = resolver instanceof DefaultRateLimitKeyResolver;
        if (!isByDefault || attributes != null && !attributes.isEmpty()) {
            return KeyAttributes.checked(place, attributes);
        }
        if (policy.getQuotas().isEmpty()) {
            return Map.of();
        }
        // A policy provider gave a limit to an annotation without one: it counts all callers of the method.
        Map<String, Object> method = new LinkedHashMap<>();
        method.put("key", "global:" + Places.nameOf(context.getMethod(), context.getTargetClass()));
        return KeyAttributes.checked(place, method);
    }

    /** Limits without a name count by themselves: the same user at two methods is two counters. */
    private static Map<String, ?> withMethod(RateLimitContext context, String place, Map<String, ?> attributes) {
        Map<String, Object> all = new LinkedHashMap<>(attributes);
        String method = Places.nameOf(context.getMethod(), context.getTargetClass());
        if (all.putIfAbsent(METHOD, KeyAttributes.checked(place, Map.of(METHOD, method)).get(METHOD)) != null) {
            throw new IllegalStateException(
                    place + ": the key has the attribute " + METHOD + ", which a limit without a name needs; name it");
        }
        return all;
    }

    private RateLimitDecision decide(RateLimitContext context, RateLimitCall call) {
        long start = System.nanoTime();
        RateLimitDecision decision = null;
        RuntimeException error = null;
        try {
            decision = rateLimiter.evaluate(call);
        } catch (RuntimeException e) {
            error = e;
        }
        return recorded(context, call, start, decision, error);
    }

    private RateLimitDecision recorded(
            RateLimitContext context, RateLimitCall call, long start, RateLimitDecision decision, Throwable error) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        if (cause == null && decision == null) {
            cause = new IllegalStateException("the RateLimiter returned null");
        }
        Duration latency = Duration.ofNanos(System.nanoTime() - start);
        String name = call.name().orElseGet(() -> Places.shortNameOf(context.getMethod(), context.getTargetClass()));
        if (cause == null) {
            metrics.recordDecision(name, call.policy(), decision, latency);
            return decision;
        }
        metrics.recordError(name, call.policy(), latency, cause);
        if (cause instanceof RuntimeException exception) {
            throw exception;
        }
        if (cause instanceof Error fatal) {
            throw fatal;
        }
        throw new IllegalStateException("the RateLimiter failed", cause);
    }

    private static void conclude(RateLimitContext context, RateLimitCall call, RateLimitDecision decision) {
        context.getCaller().ifPresent(caller -> caller.setLimitHeaders(decision.getLimitHeaders()));
        if (!decision.isAllowed()) {
            throw new RateLimitExceededException(call.name().orElse(null), call.key(), call.policy(), decision);
        }
    }
}
