package io.github.tollgaters.client;

import java.util.Locale;

/** Why a call had no answer of the service. */
public enum FailureKind {
    /** There was no whole answer within the timeout. */
    TIMEOUT,
    /** There was no connection, or it broke before the answer was whole. */
    CONNECTION,
    /** The status was 500 or above, without a decision. */
    UNAVAILABLE,
    /** The status was one of 300 to 499, without a decision: the request or the configuration is wrong. */
    REFUSED,
    /** The answer is not one of the service, or is longer than 1 MiB. */
    INVALID;

    /** Returns the kind as logs and metrics name it, such as {@code timeout}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
