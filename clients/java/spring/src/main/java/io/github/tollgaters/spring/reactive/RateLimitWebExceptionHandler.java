package io.github.tollgaters.spring.reactive;

import io.github.tollgaters.spring.config.ProblemBody;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import io.github.tollgaters.spring.web.ProblemAnswer;
import java.util.Objects;
import org.springframework.core.Ordered;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebExceptionHandler;
import reactor.core.publisher.Mono;

/** Answers denied requests of WebFlux that no advice is for, such as those of a filter that calls a limited method. */
public final class RateLimitWebExceptionHandler implements WebExceptionHandler, Ordered {

    /** Before that of Spring Boot, which answers every error with 500. */
    private static final int ORDER = -2;

    private final ProblemBody problem;
    private final boolean includeHttpHeaders;

    /**
     * Makes a handler.
     *
     * @param problem whose body denied requests get
     * @param includeHttpHeaders whether answers have the limit headers of the service
     */
    public RateLimitWebExceptionHandler(ProblemBody problem, boolean includeHttpHeaders) {
        this.problem = Objects.requireNonNull(problem, "problem");
        this.includeHttpHeaders = includeHttpHeaders;
    }

    @Override
    public int getOrder() {
        return ORDER;
    }

    @Override
    public Mono<Void> handle(ServerWebExchange exchange, Throwable error) {
        ServerHttpResponse response = exchange.getResponse();
        if (response.isCommitted()) {
            return Mono.error(error);
        }
        if (error instanceof RateLimitExceededException denied) {
            return write(response, ProblemAnswer.denied(
                    denied.getName(), denied.getPolicy(), denied.getDecision(), problem, includeHttpHeaders));
        }
        if (error instanceof RateLimiterBackendException) {
            return write(response, ProblemAnswer.unavailable());
        }
        return Mono.error(error);
    }

    private static Mono<Void> write(ServerHttpResponse response, ProblemAnswer answer) {
        return Answers.write(response, answer.status(), answer.headers(), ProblemAnswer.TYPE, answer.json());
    }
}
