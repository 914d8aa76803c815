package io.github.tollgaters.spring.model;

import java.util.Locale;

/** Whom a limit without a key counts. */
public enum RateLimitScope {
    /** All callers together. */
    GLOBAL,
    /** Each authenticated user. */
    USER,
    /** Each address. */
    IP;

    /**
     * Returns the scope of a text.
     *
     * @param scope the text, in any case
     * @return the scope
     * @throws IllegalArgumentException if there is no such scope
     */
    public static RateLimitScope from(String scope) {
        if (scope == null || scope.isBlank()) {
            throw new IllegalArgumentException("a scope is missing: it is GLOBAL, USER or IP");
        }
        try {
            return valueOf(scope.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("no such scope: \"" + scope + "\"; it is GLOBAL, USER or IP", e);
        }
    }

    /**
     * Returns the name of the scope.
     *
     * @return the name in capitals
     */
    public String getScope() {
        return name();
    }

    /**
     * Returns the name of the scope.
     *
     * @return the name in capitals
     */
    public String getKey() {
        return name();
    }
}
