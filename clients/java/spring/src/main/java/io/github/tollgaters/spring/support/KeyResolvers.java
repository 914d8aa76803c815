package io.github.tollgaters.spring.support;

import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.aop.support.AopUtils;

/** The key resolvers of an app, found by their type. */
public final class KeyResolvers {

    private final RateLimitKeyResolver byDefault;
    private final List<RateLimitKeyResolver> resolvers;
    private final Map<Class<?>, RateLimitKeyResolver> cache = new ConcurrentHashMap<>();

    /**
     * Makes a list of resolvers.
     *
     * @param byDefault the one for annotations that name none
     * @param resolvers the beans
     */
    public KeyResolvers(RateLimitKeyResolver byDefault, List<RateLimitKeyResolver> resolvers) {
        this.byDefault = Objects.requireNonNull(byDefault, "the default key resolver");
        this.resolvers = List.copyOf(resolvers);
    }

    /**
     * Returns the resolver of a type.
     *
     * @param place the annotation, for errors
     * @param type the type; the interface itself stands for the default
     * @return the bean of exactly this type, or else the only one of a subtype
     * @throws IllegalStateException if there is none, or if there are several
     */
    public RateLimitKeyResolver resolve(String place, Class<? extends RateLimitKeyResolver> type) {
        if (type == RateLimitKeyResolver.class) {
            return byDefault;
        }
        RateLimitKeyResolver known = cache.get(type);
        if (known == null) {
            known = find(place, type);
            cache.put(type, known);
        }
        return known;
    }

    private RateLimitKeyResolver find(String place, Class<?> type) {
        List<RateLimitKeyResolver> exact = resolvers.stream()
                .filter(resolver -> AopUtils.getTargetClass(resolver) == type)
                .toList();
        List<RateLimitKeyResolver> found = exact.isEmpty()
                ? resolvers.stream().filter(type::isInstance).toList()
                : exact;
        if (found.size() == 1) {
            return found.get(0);
        }
        if (found.isEmpty() && type.isInstance(byDefault)) {
            return byDefault;
        }
        String count = found.isEmpty() ? "is no bean" : "are " + found.size() + " beans";
        throw new IllegalStateException(
                place + ": keyResolver = " + type.getName() + ": there " + count + " of this type");
    }
}
