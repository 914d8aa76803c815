package io.github.tollgaters.spring.web;

import io.github.tollgaters.spring.config.ProblemBody;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import org.springframework.core.Ordered;
import org.springframework.web.servlet.HandlerExceptionResolver;
import org.springframework.web.servlet.ModelAndView;

/** Answers denied requests of handlers that no advice is for, such as functions of a router. It comes last. */
public final class RateLimitExceptionResolver implements HandlerExceptionResolver, Ordered {

    private final ProblemBody problem;
    private final boolean includeHttpHeaders;

    /**
     * Makes a resolver.
     *
     * @param problem whose body denied requests get
     * @param includeHttpHeaders whether answers have the limit headers of the service
     */
    public RateLimitExceptionResolver(ProblemBody problem, boolean includeHttpHeaders) {
        this.problem = Objects.requireNonNull(problem, "problem");
        this.includeHttpHeaders = includeHttpHeaders;
    }

    @Override
    public int getOrder() {
        return Ordered.LOWEST_PRECEDENCE;
    }

    @Override
    public ModelAndView resolveException(
            HttpServletRequest request, HttpServletResponse response, Object handler, Exception error) {
        ProblemAnswer answer;
        if (error instanceof RateLimitExceededException denied) {
            answer = ProblemAnswer.denied(
                    denied.getName(), denied.getPolicy(), denied.getDecision(), problem, includeHttpHeaders);
        } else if (error instanceof RateLimiterBackendException) {
            answer = ProblemAnswer.unavailable();
        } else {
            return null;
        }
        if (response.isCommitted()) {
            return null;
        }
        response.setStatus(answer.status());
        answer.headers().forEach(response::setHeader);
        response.setContentType(ProblemAnswer.TYPE);
        try {
            response.getOutputStream().write(answer.json().getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException("the answer to a denied request was not written", e);
        }
        return new ModelAndView();
    }
}
