package io.github.tollgaters.spring.config;

import io.github.tollgaters.spring.aspect.InvalidRateLimitException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** Says which limit is wrong when the app does not start, in place of a stack trace. */
@Order(Ordered.HIGHEST_PRECEDENCE)
public final class InvalidRateLimitFailureAnalyzer extends AbstractFailureAnalyzer<InvalidRateLimitException> {

    /** Makes an analyzer. */
    public InvalidRateLimitFailureAnalyzer() {
    }

    @Override
    protected FailureAnalysis analyze(Throwable failure, InvalidRateLimitException cause) {
        return new FailureAnalysis(cause.getMessage() + ".", "Correct the limit of the method.", cause);
    }
}
