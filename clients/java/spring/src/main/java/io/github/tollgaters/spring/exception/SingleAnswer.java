package io.github.tollgaters.spring.exception;

import java.util.Objects;
import org.springframework.context.ApplicationContext;
import org.springframework.core.Ordered;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/**
 * Answers one kind of exception before an advice for all exceptions does, if the app names only the other kind. It has
 * the first place unless an advice of the app names its exception.
 */
public abstract sealed class SingleAnswer implements Ordered {

    private final RateLimitExceptionHandler handler;
    private final ApplicationContext context;
    private final Class<? extends Exception> exception;

    private SingleAnswer(
            RateLimitExceptionHandler handler, ApplicationContext context, Class<? extends Exception> exception) {
        this.handler = Objects.requireNonNull(handler, "handler");
        this.context = Objects.requireNonNull(context, "context");
        this.exception = exception;
    }

    @Override
    public int getOrder() {
        return RateLimitExceptionHandler.isNamed(context, exception)
                ? Ordered.LOWEST_PRECEDENCE
                : Ordered.HIGHEST_PRECEDENCE;
    }

    /** Answers denied requests. */
    @RestControllerAdvice
    public static final class OfDenials extends SingleAnswer {

        /**
         * Makes an advice.
         *
         * @param handler makes the answer
         * @param context has the advices of the app
         */
        public OfDenials(RateLimitExceptionHandler handler, ApplicationContext context) {
            super(handler, context, RateLimitExceededException.class);
        }

        /**
         * Answers a denied request.
         *
         * @param denied the denial
         * @return the answer
         */
        @ExceptionHandler(RateLimitExceededException.class)
        public ResponseEntity<ProblemDetail> answer(RateLimitExceededException denied) {
            return super.handler.handleRateLimitExceeded(denied);
        }
    }

    /** Answers requests about which there is no decision. */
    @RestControllerAdvice
    public static final class OfOutages extends SingleAnswer {

        /**
         * Makes an advice.
         *
         * @param handler makes the answer
         * @param context has the advices of the app
         */
        public OfOutages(RateLimitExceptionHandler handler, ApplicationContext context) {
            super(handler, context, RateLimiterBackendException.class);
        }

        /**
         * Answers a request about which there is no decision.
         *
         * @param refused why
         * @return the answer
         */
        @ExceptionHandler(RateLimiterBackendException.class)
        public ResponseEntity<ProblemDetail> answer(RateLimiterBackendException refused) {
            return super.handler.handleBackendFailure(refused);
        }
    }
}
