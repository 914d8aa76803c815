package io.github.tollgaters.spring.support;

import org.springframework.expression.EvaluationException;
import org.springframework.expression.spel.SpelEvaluationException;

/** Says why an expression failed, without values of the call, which may be keys. */
public final class ExpressionFailure {

    private ExpressionFailure() {}

    /**
     * Returns an error without the causes of a failure, whose messages may repeat a value.
     *
     * @param what the expression, and that it failed
     * @param failure what was thrown
     * @return the error, with the stack of the first cause
     */
    public static IllegalStateException of(String what, RuntimeException failure) {
        Throwable first = firstCause(failure);
        IllegalStateException error = new IllegalStateException(what + ": " + reason(failure, first));
        error.setStackTrace(first.getStackTrace());
        return error;
    }

    private static Throwable firstCause(Throwable failure) {
        Throwable first = failure;
        while (first.getCause() != null) {
            first = first.getCause();
        }
        return first;
    }

    /** The messages of Spring itself name properties, methods and types. */
    private static String reason(RuntimeException failure, Throwable first) {
        boolean isOfSpring = failure instanceof EvaluationException && first instanceof SpelEvaluationException;
        return isOfSpring ? ((SpelEvaluationException) first).getMessage() : first.getClass().getName();
    }
}
