package io.github.tollgaters.client;

/** Bounds of costs. */
final class Units {
    private static final long MAX_COST = 0xffff_ffffL;

    private Units() {
    }

    static long cost(long cost) {
        if (cost < 0 || cost > MAX_COST) {
            throw new IllegalArgumentException("the cost " + cost + " is not from 0 to " + MAX_COST);
        }
        return cost;
    }
}
