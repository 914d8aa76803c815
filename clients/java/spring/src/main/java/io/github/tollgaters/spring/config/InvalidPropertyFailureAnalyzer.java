package io.github.tollgaters.spring.config;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Says which property is wrong when the app does not start, in place of a stack trace. */
public final class InvalidPropertyFailureAnalyzer extends AbstractFailureAnalyzer<InvalidPropertyException> {

    /** Makes an analyzer. */
    public InvalidPropertyFailureAnalyzer() {
    }

    @Override
    protected FailureAnalysis analyze(Throwable failure, InvalidPropertyException cause) {
        return new FailureAnalysis(cause.getMessage() + ".", "Correct the property of Tollgate.", cause);
    }
}
