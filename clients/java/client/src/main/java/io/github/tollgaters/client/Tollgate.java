package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * A client of one Tollgate service. Make one for the whole program; it can be used by many threads at once.
 *
 * <pre>{@code
 * try (Tollgate tollgate = Tollgate.builder().onFailure("login", OnFailure.CLOSED).build()) {
 *     Decision decision = tollgate.check("search", Map.of("user", "alice"));
 *     if (!decision.allowed()) {
 *         // decision.retryAfter() is the exact time to wait.
 *     }
 * }
 * }</pre>
 *
 * <p>A denial is a decision and no exception. So is a call without an answer of the service: the client then admits or
 * denies by itself, as {@link TollgateBuilder#onFailure(OnFailure)} says. Wrong arguments throw an
 * {@link IllegalArgumentException}, from asynchronous calls as well.
 *
 * <p>Every call ends within the client's timeout, waiting for a connection included. The asynchronous calls let no thread
 * of the caller wait. Stages of their futures run in threads of the client, so a stage that waits for long belongs into an
 * executor of the app. The other calls wait in the calling thread. If that is interrupted, the call ends as a failure of
 * the kind {@link FailureKind#CONNECTION}, and the thread stays interrupted.
 *
 * <p>A check of which a byte may have been sent is never sent again. Reservations, renewals and settlements are, at most
 * twice, if the connection broke: the service recognizes them.
 */
public interface Tollgate extends AutoCloseable {
    /**
     * Returns a builder of clients.
     *
     * @return the builder, with the settings of the environment
     */
    static TollgateBuilder builder() {
        return new TollgateBuilder();
    }

    /**
     * Takes units, if every quota has room.
     *
     * @param request what to ask
     * @return the decision
     */
    CompletableFuture<Decision> checkAsync(CheckRequest request);

    /**
     * Answers as a check would, and takes nothing.
     *
     * @param request what to ask
     * @return the decision
     */
    CompletableFuture<Decision> peekAsync(CheckRequest request);

    /**
     * Repeats a check until it is admitted, for budgets of outgoing calls. It sleeps exactly as long as each denial says,
     * but at least a millisecond. The denial is returned at once if the next attempt would be after the timeout, or if
     * waiting does not help. Cancel the future to end the wait.
     *
     * @param request what to ask
     * @param timeout how long to wait at most
     * @return the decision
     */
    CompletableFuture<Decision> awaitAsync(CheckRequest request, Duration timeout);

    /**
     * Counts under limits of the caller, also past them, in one step that is exact over all processes. The service needs
     * {@code --caller-quotas}.
     *
     * @param request what to count
     * @return the state of the counter
     */
    CompletableFuture<Count> countAsync(CountRequest request);

    /**
     * Takes units in flight and charges an estimated cost, if there is room for all of it. Settle the reservation at the
     * actual cost, or release it.
     *
     * @param request what to reserve
     * @return the reservation, which may be denied
     */
    CompletableFuture<Reservation> reserveAsync(ReservationRequest request);

    /**
     * Does what {@link #checkAsync} does, in the calling thread.
     *
     * @param request what to ask
     * @return the decision
     */
    Decision check(CheckRequest request);

    /**
     * Checks at the cost 1, in the calling thread.
     *
     * @param name as in {@link CheckRequest#of}
     * @param attributes as in {@link CheckRequest#of}
     * @return the decision
     */
    default Decision check(String name, Map<String, ?> attributes) {
        return check(CheckRequest.of(name, attributes));
    }

    /**
     * Does what {@link #peekAsync} does, in the calling thread.
     *
     * @param request what to ask
     * @return the decision
     */
    Decision peek(CheckRequest request);

    /**
     * Does what {@link #awaitAsync} does, in the calling thread. An interrupt while it sleeps ends the wait with the
     * denial that it waits after.
     *
     * @param request what to ask
     * @param timeout how long to wait at most
     * @return the decision
     */
    Decision await(CheckRequest request, Duration timeout);

    /**
     * Does what {@link #countAsync} does, in the calling thread.
     *
     * @param request what to count
     * @return the state of the counter
     */
    Count count(CountRequest request);

    /**
     * Does what {@link #reserveAsync} does, in the calling thread.
     *
     * @param request what to reserve
     * @return the reservation, which may be denied
     */
    Reservation reserve(ReservationRequest request);

    /**
     * Reserves units for a scope, and renews them until its end.
     *
     * <pre>{@code
     * try (Hold hold = tollgate.hold(ReservationRequest.of("render", Map.of("user", user)).cost(4000))) {
     *     if (hold.allowed()) {
     *         hold.settle(render());
     *     }
     * }
     * }</pre>
     *
     * @param request what to reserve
     * @return the hold, which may be denied
     */
    Hold hold(ReservationRequest request);

    /**
     * Runs work in the scope of a hold. If the work fails, a request with {@link ReservationRequest#releaseOnError} gives
     * everything back.
     *
     * @param request what to reserve
     * @param work gets the hold, which may be denied
     * @param <T> the type of the result
     * @param <E> what the work may throw
     * @return the result of the work
     * @throws E if the work does
     */
    default <T, E extends Exception> T hold(ReservationRequest request, HoldWork<T, E> work) throws E {
        try (Hold hold = hold(request)) {
            try {
                return work.run(hold);
            } catch (Throwable failed) {
                if (request.releasesOnError()) {
                    hold.releaseUnlessSettled();
                }
                throw failed;
            }
        }
    }

    /**
     * Returns how many calls had no answer of the service since the client was made.
     *
     * @return the numbers by kind; kinds that did not occur are absent
     */
    Map<FailureKind, Long> failures();

    /**
     * Returns what the client answers for a name if the service does not.
     *
     * @param name of a check, or the policy of a count
     * @return the answer
     */
    OnFailure onFailureOf(String name);

    /**
     * Ends all connections, renewals and waits, and logs the failures that no line has named yet. Calls that run end at
     * once, and later ones are failures of the kind {@link FailureKind#CONNECTION}.
     */
    @Override
    void close();
}
