package io.github.tollgaters.spring.key;

import io.github.tollgaters.spring.core.RateLimitContext;
import java.util.Map;

/** A bean that says what a call is counted by. An annotation chooses it by its type. */
@FunctionalInterface
public interface RateLimitKeyResolver {

    /**
     * Returns the key of a call, such as {@code user:17}.
     *
     * @param context the call
     * @return the key; null and an empty text are errors of the app
     */
    String resolveKey(RateLimitContext context);

    /**
     * Returns the attributes of a call, by default the attribute {@code key} with the text of {@link #resolveKey}.
     *
     * @param context the call
     * @return texts, booleans or lists of texts; a map without entries is an error of the app
     */
    default Map<String, ?> resolveAttributes(RateLimitContext context) {
        String key = resolveKey(context);
        return key == null ? Map.of() : Map.of("key", key);
    }
}
