package io.github.tollgaters.spring.filter;

import java.security.Principal;

/** What filters see of a request, of either web stack. */
public interface FilterRequest {

    /**
     * Returns the method of HTTP.
     *
     * @return the method
     */
    String method();

    /**
     * Returns the forms of the path.
     *
     * @return the forms
     */
    RequestPaths paths();

    /**
     * Returns the request of the framework, which expressions see as {@code request}.
     *
     * @return the request
     */
    Object request();

    /**
     * Returns the principal.
     *
     * @return the principal, or null if the caller is not known
     */
    Principal principal();

    /**
     * Returns the address of the client, as the server gives it.
     *
     * @return the address, or null
     */
    String address();

    /**
     * Returns the first value of a header.
     *
     * @param name the name, in any case
     * @return the value, or null
     */
    String header(String name);

    /**
     * Returns the first value of a parameter.
     *
     * @param name the name
     * @return the value, or null
     */
    String param(String name);
}
