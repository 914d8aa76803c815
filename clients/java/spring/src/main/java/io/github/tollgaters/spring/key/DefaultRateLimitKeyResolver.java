package io.github.tollgaters.spring.key;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.model.RateLimitScope;
import io.github.tollgaters.spring.support.AnnotationExpression;
import io.github.tollgaters.spring.support.AnnotationRateLimitPolicyProvider;
import io.github.tollgaters.spring.support.Places;
import io.github.tollgaters.spring.web.WebCaller;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.expression.BeanResolver;

/**
 * Counts by the key of the annotation, or else by its scope.
 *
 * <p>A limit in the annotation counts under {@code scope:key} or, without a key, under {@code scope:Class#method}, and
 * by the user or the address if that is the scope. Policies of the service see the plain key as the attribute
 * {@code key}; without a key, they see the {@code user} or the {@code ip}.
 */
public final class DefaultRateLimitKeyResolver implements RateLimitKeyResolver {

    private final BeanResolver beans;
    private final Map<Site, AnnotationExpression> expressions = new ConcurrentHashMap<>();

    /** Makes a resolver whose expressions see no beans. */
    public DefaultRateLimitKeyResolver() {
        this.beans = null;
    }

    /**
     * Makes a resolver.
     *
     * @param beans the beans that expressions see
     */
    public DefaultRateLimitKeyResolver(BeanFactory beans) {
        this.beans = new BeanFactoryResolver(beans);
    }

    private record Site(Method method, Class<?> targetClass, String text) {}

    @Override
    public String resolveKey(RateLimitContext context) {
        return textOf(resolveAttributes(context));
    }

    /**
     * Returns attributes as one text, for exceptions.
     *
     * @param attributes the attributes
     * @return the attribute {@code key} if there is no other, else all of them
     */
    public static String textOf(Map<String, ?> attributes) {
        Object key = attributes.get("key");
        return attributes.size() == 1 && key instanceof String text ? text : new TreeMap<>(attributes).toString();
    }

    @Override
    public Map<String, ?> resolveAttributes(RateLimitContext context) {
        RateLimit annotation = context.getAnnotation();
        boolean inCall = AnnotationRateLimitPolicyProvider.hasLimit(annotation);
        if (!annotation.key().isBlank()) {
            return keyed(context, inCall);
        }
        Map<String, Object> attributes = new LinkedHashMap<>();
        if (inCall) {
            String method = Places.nameOf(context.getMethod(), context.getTargetClass());
            attributes.put("key", scopeOf(annotation).name().toLowerCase(Locale.ROOT) + ":" + method);
        }
        addCaller(context, inCall, attributes);
        return attributes;
    }

    private Map<String, ?> keyed(RateLimitContext context, boolean inCall) {
        RateLimit annotation = context.getAnnotation();
        AnnotationExpression expression = expressions.computeIfAbsent(
                new Site(context.getMethod(), context.getTargetClass(), annotation.key()),
                site -> AnnotationExpression.parse("key", site.text(), site.method(), site.targetClass()));
        List<Object> values = expression.values(context, beans);
        if (expression.isSingle() && values.get(0) instanceof Map<?, ?> map) {
            return KeyAttributes.checked(expression.place(), map);
        }
        StringBuilder key = new StringBuilder();
        for (Object value : values) {
            key.append(KeyAttributes.text(expression.place(), value));
        }
        String scope = inCall ? scopeOf(annotation).name().toLowerCase(Locale.ROOT) + ":" : "";
        return Map.of("key", scope + key);
    }

    private static void addCaller(RateLimitContext context, boolean inCall, Map<String, Object> attributes) {
        RateLimit annotation = context.getAnnotation();
        if (annotation.scope().isBlank()) {
            if (!inCall) {
                // Without it, a policy by address would refuse the check, and the call would be admitted uncounted.
                attributes.put("ip", context.getCaller().flatMap(WebCaller::getAddress).orElseThrow(() ->
                        new IllegalStateException(place(context) + ": the address of the caller is its key, but this call "
                                + "is in no web request that has one: give a key, or write scope = \"GLOBAL\"")));
            }
            return;
        }
        switch (scopeOf(annotation)) {
            case GLOBAL -> {}
            case USER -> attributes.put("user", caller(context).getUser().orElseThrow(() -> new IllegalStateException(
                    place(context) + ": scope USER, but nobody is authenticated in this web request")));
            case IP -> attributes.put("ip", caller(context).getAddress().orElseThrow(() -> new IllegalStateException(
                    place(context) + ": scope IP, but the server gives no address of the caller")));
        }
    }

    private static WebCaller caller(RateLimitContext context) {
        return context.getCaller().orElseThrow(() -> new IllegalStateException(place(context) + ": scope "
                + scopeOf(context.getAnnotation()) + " without a key needs a web request, and this call is in none"));
    }

    private static String place(RateLimitContext context) {
        return Places.of(context.getMethod(), context.getTargetClass());
    }

    private static RateLimitScope scopeOf(RateLimit annotation) {
        return annotation.scope().isBlank() ? RateLimitScope.GLOBAL : RateLimitScope.from(annotation.scope());
    }
}
