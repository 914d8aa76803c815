package io.github.tollgaters.client;

/** What a client answers if the service does not. */
public enum OnFailure {
    /** Admits. */
    OPEN,
    /** Denies. */
    CLOSED
}
