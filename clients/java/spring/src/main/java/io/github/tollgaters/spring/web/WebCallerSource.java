package io.github.tollgaters.spring.web;

import java.util.Optional;

/** Finds the web request in which a thread runs. */
@FunctionalInterface
public interface WebCallerSource {

    /**
     * Returns the caller of the request of this thread.
     *
     * @return the caller; empty outside of web requests
     */
    Optional<WebCaller> current();
}
