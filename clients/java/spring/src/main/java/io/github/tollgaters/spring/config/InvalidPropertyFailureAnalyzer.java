package io.github.tollgaters.spring.config;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** Says which property is wrong when the app does not start, in place of a stack trace. */
@Order(Ordered.HIGHEST_PRECEDENCE)
public final class InvalidPropertyFailureAnalyzer extends AbstractFailureAnalyzer<InvalidPropertyException> {

    /** Makes an analyzer. */
    public InvalidPropertyFailureAnalyzer() {
    }

    @Override
    protected FailureAnalysis analyze(Throwable failure, InvalidPropertyException cause) {
        return new FailureAnalysis(cause.getMessage() + ".", "Correct the property of Tollgate.", cause);
    }
}
