package io.github.tollgaters.spring.config;

/** A property of Tollgate is wrong. The message begins with its name. */
public final class InvalidPropertyException extends IllegalArgumentException {

    private static final long serialVersionUID = 1L;

    /**
     * Makes an exception.
     *
     * @param property the name of the property
     * @param problem what is wrong
     * @param cause why, or null
     */
    public InvalidPropertyException(String property, String problem, Throwable cause) {
        super(property + " " + problem, cause);
    }
}
