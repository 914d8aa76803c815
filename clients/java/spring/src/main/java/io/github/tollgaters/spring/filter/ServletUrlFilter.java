package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.core.RateLimitCall;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.model.RateLimitDecision;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;

/**
 * The limits of URLs in a servlet container.
 *
 * <p>A request is counted once by each limit, also if it is forwarded or dispatched again. A limit that only the new path
 * has is asked then. A condition that was false is not asked again for the same path. Error pages and includes are part of an answer, so they are not limited.
 */
public final class ServletUrlFilter implements Filter {

    /** The dispatches that are limited. */
    public static final Set<DispatcherType> DISPATCHES =
            Set.copyOf(EnumSet.of(DispatcherType.REQUEST, DispatcherType.FORWARD, DispatcherType.ASYNC));

    private static final String COUNTED = ServletUrlFilter.class.getName() + ".counted";

    private final UrlFilters filters;
    private final RateLimiter limiter;
    private final RateLimitMetricsRecorder recorder;

    /**
     * Makes a filter.
     *
     * @param filters the limits
     * @param limiter decides
     * @param recorder records the decisions
     */
    public ServletUrlFilter(UrlFilters filters, RateLimiter limiter, RateLimitMetricsRecorder recorder) {
        this.filters = filters;
        this.limiter = limiter;
        this.recorder = recorder;
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        if (!(request instanceof HttpServletRequest http)
                || !(response instanceof HttpServletResponse answer)
                || !DISPATCHES.contains(request.getDispatcherType())) {
            chain.doFilter(request, response);
            return;
        }
        Optional<FilterAnswer> refused = refusal(http, answer);
        if (refused.isEmpty()) {
            chain.doFilter(request, response);
        } else if (!answer.isCommitted()) {
            write(refused.get(), answer);
        }
    }

    /** Asks the limits of a request; empty if all of them admit it. */
    private Optional<FilterAnswer> refusal(HttpServletRequest http, HttpServletResponse answer) {
        FilterRequest request;
        try {
            request = new ServletFilterRequest(http);
        } catch (IllegalArgumentException error) {
            return Optional.of(UrlFilter.unreadablePath());
        }
        Set<String> counted = counted(http);
        for (UrlFilter filter : filters.matching(request)) {
            String passedOver = filter.name() + " " + http.getRequestURI();
            if (counted.contains(filter.name()) || counted.contains(passedOver)) {
                continue;
            }
            Optional<FilterAnswer> refused = filter.refusal(request);
            if (refused.isPresent()) {
                return refused;
            }
            Optional<RateLimitCall> call = filter.call(request);
            if (call.isEmpty()) {
                // An asynchronous request comes again after its work is done, and must not be denied then.
                counted.add(passedOver);
                continue;
            }
            counted.add(filter.name());
            refused = decide(filter, call.get(), answer);
            if (refused.isPresent()) {
                return refused;
            }
        }
        return Optional.empty();
    }

    private Optional<FilterAnswer> decide(UrlFilter filter, RateLimitCall call, HttpServletResponse answer) {
        long start = System.nanoTime();
        RateLimitDecision decision;
        try {
            decision = limiter.evaluate(call);
        } catch (RateLimiterBackendException error) {
            recorder.recordError(filter.name(), filter.policy(), since(start), error);
            return Optional.of(UrlFilter.unavailable());
        }
        recorder.recordDecision(filter.name(), filter.policy(), decision, since(start));
        if (!decision.isAllowed()) {
            return Optional.of(filter.denial(decision));
        }
        if (filter.headers()) {
            decision.getHeaders().forEach(answer::setHeader);
        }
        return Optional.empty();
    }

    private static Duration since(long start) {
        return Duration.ofNanos(System.nanoTime() - start);
    }

    /**
     * Returns the names of the limits that have counted the request, and those whose condition was false, with the path.
     * They stay with the request through its dispatches.
     */
    @SuppressWarnings("unchecked")
    private static Set<String> counted(HttpServletRequest request) {
        Object known = request.getAttribute(COUNTED);
        if (known instanceof Set<?>) {
            return (Set<String>) known;
        }
        Set<String> counted = new HashSet<>();
        request.setAttribute(COUNTED, counted);
        return counted;
    }

    private static void write(FilterAnswer refused, HttpServletResponse response) throws IOException {
        byte[] body = refused.body().getBytes(StandardCharsets.UTF_8);
        response.resetBuffer();
        response.setStatus(refused.status());
        refused.headers().forEach(response::setHeader);
        response.setContentType(refused.contentType());
        response.setContentLength(body.length);
        response.getOutputStream().write(body);
    }
}
