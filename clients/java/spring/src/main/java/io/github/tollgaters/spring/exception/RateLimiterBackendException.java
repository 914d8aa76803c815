package io.github.tollgaters.spring.exception;

import java.io.Serial;

/**
 * Says that there is no decision, and that such calls are not admitted ({@code tollgate.on-failure: closed}). A web
 * request is then answered 503.
 */
public final class RateLimiterBackendException extends RuntimeException {

    @Serial
    private static final long serialVersionUID = 1L;

    /**
     * Makes an exception.
     *
     * @param message what failed, without a key
     */
    public RateLimiterBackendException(String message) {
        super(message);
    }

    /**
     * Makes an exception with a cause.
     *
     * @param message what failed, without a key
     * @param cause why
     */
    public RateLimiterBackendException(String message, Throwable cause) {
        super(message, cause);
    }
}
