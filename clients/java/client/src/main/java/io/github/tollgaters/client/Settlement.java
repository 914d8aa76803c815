package io.github.tollgaters.client;

import java.util.Optional;

/**
 * The answer to a renewal or to a settlement.
 *
 * @param status what has become of the hold; absent if the service did not answer
 * @param failure why the service did not answer
 */
public record Settlement(Optional<Status> status, Optional<FailureKind> failure) {
    /** What has become of a hold. */
    public enum Status {
        /** The hold lives on. */
        RENEWED,
        /** The units in flight of the hold are gone; its work should stop. */
        LOST,
        /** The hold had ended, or is unknown; its charge stays. */
        EXPIRED,
        /** The hold was settled before. */
        ENDED,
        /** The hold has ended at its cost. */
        SETTLED,
        /** Nothing counts the hold. */
        GONE
    }

    static Settlement of(Status status) {
        return new Settlement(Optional.of(status), Optional.empty());
    }

    static Settlement failed(FailureKind kind) {
        return new Settlement(Optional.empty(), Optional.of(kind));
    }
}
