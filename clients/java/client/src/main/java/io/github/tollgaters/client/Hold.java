package io.github.tollgaters.client;

import java.time.Duration;

/**
 * A reservation that is renewed until it is closed, whenever a third of its length has passed.
 *
 * <p>At the end of the scope, a hold that was not settled is settled at its estimate: its units in flight are free, and
 * its charge stays, because what is unknown stays charged.
 */
public final class Hold implements AutoCloseable {
    /** A hold is not renewed more often than this, whatever the service says. */
    private static final Duration MIN_PAUSE = Duration.ofMillis(5);

    private final Reservation reservation;
    private final Background background;
    private volatile boolean lost;
    private volatile boolean over;
    private volatile Background.Task next;

    Hold(Reservation reservation, Background background) {
        this.reservation = reservation;
        this.background = background;
        if (reservation.isHeld()) {
            renewAfter(reservation.length().dividedBy(3));
        }
    }

    /**
     * Returns the answer to the reservation.
     *
     * @return the decision
     */
    public Decision decision() {
        return reservation.decision();
    }

    /**
     * Says whether the reservation is admitted.
     *
     * @return the verdict
     */
    public boolean allowed() {
        return reservation.allowed();
    }

    /**
     * Says whether a renewal found the hold lost, expired or ended. Its units may be another's by now, so the work should
     * stop.
     *
     * @return whether it is lost
     */
    public boolean isLost() {
        return lost;
    }

    /**
     * Ends the hold at its actual cost, and its renewal. If that has no answer, {@link #close} settles again at the same
     * cost.
     *
     * @param cost from 0 to 2^32-1
     * @return what has become of the hold; {@code GONE} if nothing counts it
     * @throws IllegalArgumentException if the cost is out of its range
     */
    public Settlement settle(long cost) {
        Units.cost(cost);
        endRenewal();
        return reservation.settle(cost);
    }

    /**
     * Ends the hold and its renewal, and gives everything back.
     *
     * @return what has become of the hold
     */
    public Settlement release() {
        return settle(0);
    }

    /**
     * Ends the scope of the hold. It waits for the service no longer than the client's timeout, also in a thread that is
     * interrupted, and throws nothing.
     */
    @Override
    public void close() {
        endRenewal();
        // An interrupted thread cannot wait for an answer, and the units would stay in flight.
        boolean interrupted = Thread.interrupted();
        try {
            reservation.unsettledCost().ifPresent(reservation::settle);
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Gives everything back, if the work has not settled. */
    void releaseUnlessSettled() {
        if (!reservation.wasSettled()) {
            endRenewal();
            boolean interrupted = Thread.interrupted();
            reservation.release();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void endRenewal() {
        over = true;
        Background.Task planned = next;
        if (planned != null) {
            planned.cancel();
        }
    }

    private void renewAfter(Duration pause) {
        if (!over && !background.isClosed()) {
            next = background.schedule(this::renew, pause.compareTo(MIN_PAUSE) < 0 ? MIN_PAUSE : pause);
        }
    }

    private void renew() {
        if (over || background.isClosed()) {
            return;
        }
        reservation.renewAsync().thenAccept(renewal -> {
            if (over) {
                // A settlement overtook the renewal, and nothing is lost.
                return;
            }
            if (renewal.status().isEmpty()) {
                // Without an answer, there is still time for further attempts.
                renewAfter(reservation.length().dividedBy(10));
                return;
            }
            switch (renewal.status().get()) {
                case RENEWED -> renewAfter(reservation.length().dividedBy(3));
                case LOST, EXPIRED, ENDED -> lost = true;
                default -> over = true;
            }
        });
    }

    /** Returns the decision. The attributes and the id of the hold are left out. */
    @Override
    public String toString() {
        return "Hold[" + reservation + (lost ? ", lost" : "") + "]";
    }
}
