package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import io.github.tollgaters.spring.support.AnnotationExpression;
import io.github.tollgaters.spring.support.AnnotationRateLimitPolicyProvider;
import io.github.tollgaters.spring.support.CostExpression;
import io.github.tollgaters.spring.support.Places;
import io.github.tollgaters.spring.support.RateLimitSwitches;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.aop.support.AopUtils;
import org.springframework.core.MethodClassKey;
import org.springframework.util.ClassUtils;

/** The limited methods of an app. Each is looked up and checked once. */
final class RateLimitDefinitions {

    private static final Set<String> REACTIVE = Set.of(
            "org.reactivestreams.Publisher",
            "java.util.concurrent.Flow$Publisher",
            "kotlinx.coroutines.flow.Flow");

    private final RateLimitSwitches switches;
    private final Map<MethodClassKey, Optional<RateLimitDefinition>> cache = new ConcurrentHashMap<>();

    RateLimitDefinitions(RateLimitSwitches switches) {
        this.switches = switches;
    }

    /**
     * Returns the limit of a method, or nothing if it has none, or if it is switched off.
     *
     * @throws InvalidRateLimitException if the annotation cannot work
     */
    Optional<RateLimitDefinition> find(Method method, Class<?> targetClass) {
        MethodClassKey key = new MethodClassKey(method, targetClass);
        Optional<RateLimitDefinition> known = cache.get(key);
        if (known == null) {
            try {
                known = resolve(method, ClassUtils.getUserClass(targetClass));
            } catch (IllegalArgumentException wrong) {
                throw new InvalidRateLimitException(wrong.getMessage(), wrong);
            }
            cache.put(key, known);
        }
        return known;
    }

    private Optional<RateLimitDefinition> resolve(Method called, Class<?> targetClass) {
        Method method = AopUtils.getMostSpecificMethod(called, targetClass);
        RateLimit annotation = RateLimitAnnotations.find(method, targetClass);
        if (annotation == null) {
            return Optional.empty();
        }
        String place = Places.of(method, targetClass);
        if (!annotation.enabled() || !switches.isEnabled(annotation.name())) {
            return Optional.empty();
        }
        checkMethod(place, method, targetClass);
        checkAnnotation(place, annotation, method, targetClass);
        Optional<Fallback> fallback = annotation.fallback().isBlank()
                ? Optional.empty()
                : Optional.of(Fallback.find(place, annotation.fallback().trim(), method, targetClass));
        return Optional.of(
                new RateLimitDefinition(annotation, method, targetClass, fallback, isReactive(method.getReturnType())));
    }

    private static void checkMethod(String place, Method method, Class<?> targetClass) {
        int modifiers = method.getModifiers();
        String kind = Modifier.isPrivate(modifiers) ? "private" : Modifier.isStatic(modifiers) ? "static" : null;
        if (kind == null && Modifier.isFinal(modifiers) && !Proxy.isProxyClass(targetClass)) {
            kind = "final";
        }
        if (kind != null) {
            throw new IllegalArgumentException(place + ": Spring cannot limit a " + kind
                    + " method, because its calls do not pass through a proxy");
        }
        Class<?>[] parameters = method.getParameterTypes();
        boolean suspends = parameters.length > 0
                && parameters[parameters.length - 1].getName().equals("kotlin.coroutines.Continuation");
        if (suspends) {
            throw new IllegalArgumentException(
                    place + ": suspend functions cannot be limited; annotate a function that returns a Mono or a Flux");
        }
    }

    private static void checkAnnotation(String place, RateLimit annotation, Method method, Class<?> targetClass) {
        boolean inCall;
        try {
            AnnotationRateLimitPolicyProvider.policyOf(annotation);
            inCall = AnnotationRateLimitPolicyProvider.hasLimit(annotation);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(place + ": " + e.getMessage(), e);
        }
        if (!inCall && annotation.name().isBlank()) {
            throw new IllegalArgumentException(
                    place + ": give a name, which a policy of the service matches, or a limit and a duration");
        }
        if (inCall && !annotation.name().isBlank() && !annotation.name().matches(RateLimitSwitches.POLICY_NAME)) {
            throw new IllegalArgumentException(place + ": name = \"" + annotation.name()
                    + "\": the name of a limit has 1 to 64 letters, digits, `-`, `_` and `.`");
        }
        boolean hasResolver = annotation.keyResolver() != RateLimitKeyResolver.class;
        if (!annotation.key().isBlank()) {
            if (hasResolver) {
                throw new IllegalArgumentException(place + ": give a key or a keyResolver, not both");
            }
            AnnotationExpression.parse("key", annotation.key(), method, targetClass);
        }
        CostExpression.parse(annotation.cost(), method, targetClass);
    }

    private static boolean isReactive(Class<?> type) {
        return type != null
                && (REACTIVE.contains(type.getName())
                        || isReactive(type.getSuperclass())
                        || Arrays.stream(type.getInterfaces()).anyMatch(RateLimitDefinitions::isReactive));
    }
}
