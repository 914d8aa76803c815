package io.github.tollgaters.spring.aspect;

import java.io.Serial;

/** A limit of a method cannot work. The message names the method. */
public final class InvalidRateLimitException extends IllegalArgumentException {

    @Serial
    private static final long serialVersionUID = 1L;

    /**
     * Makes an exception.
     *
     * @param message the method, and what is wrong
     * @param cause why, or null
     */
    public InvalidRateLimitException(String message, Throwable cause) {
        super(message, cause);
    }
}
