package io.github.tollgaters.spring.web;

import java.util.Map;
import java.util.Optional;

/** The caller of a web request, in servlets and in WebFlux. */
public interface WebCaller {

    /**
     * Returns the request of the framework, which expressions see as {@code #request}.
     *
     * @return the request
     */
    Object getRequest();

    /**
     * Returns the address of the caller, as the server gives it.
     *
     * @return the address
     */
    Optional<String> getAddress();

    /**
     * Returns the name of the authenticated user.
     *
     * @return the name; empty if nobody is authenticated
     */
    Optional<String> getUser();

    /**
     * Returns a header of the request.
     *
     * @param name the name
     * @return its first value
     */
    Optional<String> getHeader(String name);

    /**
     * Sets headers of the response, in place of those with the same name. Without effect if the response has begun, or
     * if the app wants no such headers.
     *
     * @param headers the limit headers of a decision, without {@code Retry-After}
     */
    void setLimitHeaders(Map<String, String> headers);
}
