package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * An estimated cost and units in flight, if the decision is allowed. Settle it at the actual cost, or release it.
 * {@link Tollgate#hold(ReservationRequest)} does that by itself, and renews meanwhile.
 */
public final class Reservation {
    private final Client client;
    private final ReservationRequest request;
    private final Decision decision;
    private final String hold;

    private volatile Duration length;
    /** The cost of the last settlement, which may have had no answer. */
    private volatile Long settledCost;
    private volatile boolean ended;

    Reservation(Client client, ReservationRequest request, Replies.Reserved reserved) {
        this.client = client;
        this.request = request;
        this.decision = reserved.decision();
        this.hold = decision.allowed() ? reserved.answer().text("hold") : null;
        this.length = lengthIn(reserved.answer(), request.length());
    }

    /** A reservation without an answer, which nothing counts. */
    Reservation(Client client, ReservationRequest request, Decision decision) {
        this.client = client;
        this.request = request;
        this.decision = decision;
        this.hold = null;
        this.length = request.length();
    }

    /**
     * Returns the answer to the reservation.
     *
     * @return the decision
     */
    public Decision decision() {
        return decision;
    }

    /**
     * Says whether the reservation is admitted.
     *
     * @return the verdict
     */
    public boolean allowed() {
        return decision.allowed();
    }

    /**
     * Renews the hold for its length from now.
     *
     * @return what has become of the hold; {@code GONE} if nothing counts it
     */
    public Settlement renew() {
        return hold == null ? Settlement.of(Settlement.Status.GONE) : client.now(renewal());
    }

    /**
     * Does what {@link #renew} does, asynchronously.
     *
     * @return what has become of the hold
     */
    public CompletableFuture<Settlement> renewAsync() {
        return hold == null ? gone() : client.later(renewal());
    }

    /**
     * Ends the hold at its actual cost. Units that were not used are given back; a cost above the estimate is charged
     * whether or not there is room. After a failure, it can be repeated at the same cost.
     *
     * @param cost from 0 to 2^32-1
     * @return what has become of the hold; {@code GONE} if nothing counts it
     * @throws IllegalArgumentException if the cost is out of its range
     */
    public Settlement settle(long cost) {
        Units.cost(cost);
        return hold == null ? Settlement.of(Settlement.Status.GONE) : client.now(settlement(cost));
    }

    /**
     * Does what {@link #settle} does, asynchronously.
     *
     * @param cost from 0 to 2^32-1
     * @return what has become of the hold
     * @throws IllegalArgumentException if the cost is out of its range
     */
    public CompletableFuture<Settlement> settleAsync(long cost) {
        Units.cost(cost);
        return hold == null ? gone() : client.later(settlement(cost));
    }

    /**
     * Ends the hold and gives everything back, except what a policy charges at a cost of its own.
     *
     * @return what has become of the hold
     */
    public Settlement release() {
        return settle(0);
    }

    /**
     * Does what {@link #release} does, asynchronously.
     *
     * @return what has become of the hold
     */
    public CompletableFuture<Settlement> releaseAsync() {
        return settleAsync(0);
    }

    /** The length of the hold, which is at most an hour, whatever the answer says. */
    private static Duration lengthIn(Answer answer, Duration standard) {
        Duration length = Figures.milliseconds(answer, "expires_after_ms").orElse(standard);
        return length.compareTo(ReservationRequest.MAX_LENGTH) > 0 ? ReservationRequest.MAX_LENGTH : length;
    }

    private static CompletableFuture<Settlement> gone() {
        return CompletableFuture.completedFuture(Settlement.of(Settlement.Status.GONE));
    }

    private Call<Settlement> renewal() {
        return client.holdCall("/v1/renew", Bodies.renewal(hold), request, hold, settled -> {
            if (settled.status() == Settlement.Status.RENEWED) {
                length = lengthIn(settled.answer(), length);
            }
        });
    }

    private Call<Settlement> settlement(long cost) {
        settledCost = cost;
        return client.holdCall("/v1/settle", Bodies.settlement(hold, cost), request, hold, settled -> ended = true);
    }

    /** The cost at which the end of a scope has to settle, if it has to. */
    Optional<Long> unsettledCost() {
        if (hold == null || ended) {
            return Optional.empty();
        }
        // After a settlement without an answer, another cost could be a conflict.
        Long before = settledCost;
        return Optional.of(before == null ? request.cost() : before);
    }

    boolean wasSettled() {
        return settledCost != null;
    }

    /** Says whether there is something to renew. */
    boolean isHeld() {
        return hold != null;
    }

    Duration length() {
        return length;
    }

    /** Returns the decision. The attributes and the id of the hold are left out. */
    @Override
    public String toString() {
        return "Reservation[" + request.name() + ", " + decision + "]";
    }
}
