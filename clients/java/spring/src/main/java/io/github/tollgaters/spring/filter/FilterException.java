package io.github.tollgaters.spring.filter;

/**
 * An expression of a filter failed or had no value: an error of the app, so the request is not admitted.
 *
 * <p>The message names the property and has no value of the request in it.
 */
public final class FilterException extends IllegalStateException {

    private static final long serialVersionUID = 1L;

    /**
     * Makes an exception.
     *
     * @param property the property, such as {@code tollgate.filters[0].key}
     * @param problem what is wrong
     * @param cause the exception of the expression, or null
     */
    public FilterException(String property, String problem, Throwable cause) {
        super(property + " " + problem, cause);
    }
}
