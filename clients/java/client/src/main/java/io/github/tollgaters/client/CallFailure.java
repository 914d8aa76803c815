package io.github.tollgaters.client;

import java.util.Objects;

/** Says that a call has no answer of the service. It is for {@link Transport}s: callers of a client never see it. */
public final class CallFailure extends Exception {
    private static final long serialVersionUID = 1;

    /** What the client knows about the failure besides its kind. */
    enum Cause {
        /** The client's own words. */
        OWN,
        /** The connection broke after a byte of the request may have been sent. */
        BROKEN,
        /** The detail was received, and may repeat what was sent. */
        RECEIVED,
        /** The service refused because of its store, whatever the caller has said. The detail was received. */
        DENIES
    }

    private final transient FailureKind kind;
    private final transient Cause cause;

    /**
     * Makes a failure.
     *
     * @param kind what happened
     * @param detail the text for the log, without a key or a token
     */
    public CallFailure(FailureKind kind, String detail) {
        this(kind, detail, Cause.OWN);
    }

    CallFailure(FailureKind kind, String detail, Cause cause) {
        // Without a stack: nobody sees it, and failures come in crowds.
        super(Objects.requireNonNull(detail), null, false, false);
        this.kind = Objects.requireNonNull(kind);
        this.cause = cause;
    }

    /**
     * Returns what happened.
     *
     * @return the kind
     */
    public FailureKind kind() {
        return kind;
    }

    /** Says whether a call that carries the id of a hold may be sent again. */
    boolean broken() {
        return cause == Cause.BROKEN;
    }

    boolean received() {
        return cause == Cause.RECEIVED || cause == Cause.DENIES;
    }

    boolean denies() {
        return cause == Cause.DENIES;
    }
}
