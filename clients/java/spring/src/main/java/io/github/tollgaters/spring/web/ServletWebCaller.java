package io.github.tollgaters.spring.web;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.security.Principal;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.springframework.web.context.request.RequestContextHolder;
import org.springframework.web.context.request.ServletRequestAttributes;

/**
 * The caller of a servlet request. What every limit needs is read at once: a reactive result may be limited after the
 * request has ended.
 */
public final class ServletWebCaller implements WebCaller {
    private static final List<String> TRACE = List.of("traceparent", "tracestate");

    private final HttpServletRequest request;
    private final HttpServletResponse response;
    private final boolean limitHeaders;
    private final String address;
    private final Map<String, String> trace = new HashMap<>();

    /**
     * Makes a caller.
     *
     * @param request the request
     * @param response the response, or null if headers cannot be set
     * @param limitHeaders whether the response gets limit headers
     */
    public ServletWebCaller(HttpServletRequest request, HttpServletResponse response, boolean limitHeaders) {
        this.request = Objects.requireNonNull(request, "request");
        this.response = response;
        this.limitHeaders = limitHeaders;
        this.address = request.getRemoteAddr();
        TRACE.forEach(name -> trace.put(name, request.getHeader(name)));
    }

    /**
     * Returns the caller of the request in which this thread runs.
     *
     * @param limitHeaders whether the response gets limit headers
     * @return the caller; empty outside of requests
     */
    public static Optional<WebCaller> current(boolean limitHeaders) {
        return RequestContextHolder.getRequestAttributes() instanceof ServletRequestAttributes attributes
                ? Optional.of(new ServletWebCaller(attributes.getRequest(), attributes.getResponse(), limitHeaders))
                : Optional.empty();
    }

    @Override
    public Object getRequest() {
        return request;
    }

    @Override
    public Optional<String> getAddress() {
        return Optional.ofNullable(address).filter(text -> !text.isEmpty());
    }

    @Override
    public Optional<String> getUser() {
        return Optional.ofNullable(request.getUserPrincipal()).map(Principal::getName).filter(name -> !name.isEmpty());
    }

    @Override
    public Optional<String> getHeader(String name) {
        return Optional.ofNullable(TRACE.contains(name) ? trace.get(name) : request.getHeader(name));
    }

    @Override
    public void setLimitHeaders(Map<String, String> headers) {
        if (!limitHeaders || response == null) {
            return;
        }
        // Reactive results of one request may be limited at the same time, each on a thread of its own.
        synchronized (response) {
            try {
                if (!response.isCommitted()) {
                    headers.forEach(response::setHeader);
                }
            } catch (IllegalStateException ended) {
                // The response has ended, and the server has taken it back.
            }
        }
    }
}
