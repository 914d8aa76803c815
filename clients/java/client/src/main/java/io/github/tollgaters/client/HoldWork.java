package io.github.tollgaters.client;

/**
 * Work in the scope of a hold, for {@link Tollgate#hold(ReservationRequest, HoldWork)}.
 *
 * @param <T> the type of the result
 * @param <E> what the work may throw
 */
@FunctionalInterface
public interface HoldWork<T, E extends Exception> {
    /**
     * Works, and settles the hold at the actual cost if it knows that.
     *
     * @param hold the hold, which may be denied
     * @return the result
     * @throws E if the work fails
     */
    T run(Hold hold) throws E;
}
