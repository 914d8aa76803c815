package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Map;

/**
 * What a reservation asks. Requests are immutable: each method returns a changed copy.
 *
 * <p>The name is as in {@link CheckRequest}.
 */
public final class ReservationRequest {
    /** The length of a hold that the service takes by default. */
    private static final Duration STANDARD_LENGTH = Duration.ofMinutes(1);
    /** The longest hold of the service. */
    static final Duration MAX_LENGTH = Duration.ofHours(1);
    private static final int MAX_UNITS = 1000;

    private final String name;
    private final Attributes attributes;
    private final long cost;
    private final int units;
    private final Duration expiresAfter;
    private final boolean releaseOnError;
    private final TraceContext trace;

    private ReservationRequest(String name, Attributes attributes, long cost, int units, Duration expiresAfter,
            boolean releaseOnError, TraceContext trace) {
        this.name = name;
        this.attributes = attributes;
        this.cost = cost;
        this.units = units;
        this.expiresAfter = expiresAfter;
        this.releaseOnError = releaseOnError;
        this.trace = trace;
    }

    /**
     * Returns a request of the estimated cost 1 and one unit in flight.
     *
     * @param name 1 to 1,024 bytes
     * @param attributes as in {@link CheckRequest#of}
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static ReservationRequest of(String name, Map<String, ?> attributes) {
        String checked = Text.name(name, "the name of a reservation");
        Attributes copy = Attributes.ofCheck(attributes);
        return new ReservationRequest(checked, copy, 1, 1, STANDARD_LENGTH, false, TraceContext.NONE);
    }

    /**
     * Returns a request with another estimated cost.
     *
     * @param cost the units, from 0 to 2^32-1
     * @return the request
     * @throws IllegalArgumentException if the cost is out of its range
     */
    public ReservationRequest cost(long cost) {
        return new ReservationRequest(name, attributes, Units.cost(cost), units, expiresAfter, releaseOnError, trace);
    }

    /**
     * Returns a request with another number of units in flight.
     *
     * @param units from 0 to 1,000
     * @return the request
     * @throws IllegalArgumentException if the number is out of its range
     */
    public ReservationRequest units(int units) {
        if (units < 0 || units > MAX_UNITS) {
            throw new IllegalArgumentException(units + " units in flight are not from 0 to " + MAX_UNITS);
        }
        return new ReservationRequest(name, attributes, cost, units, expiresAfter, releaseOnError, trace);
    }

    /**
     * Returns a request with another length.
     *
     * @param length how long the hold lives from its last renewal, from 1 ms to 1 h in whole milliseconds. Default: a
     *         minute, or less if a limit in flight says so.
     * @return the request
     * @throws IllegalArgumentException if the length is out of its range
     */
    public ReservationRequest expiresAfter(Duration length) {
        boolean wrong = length == null || length.compareTo(Duration.ofMillis(1)) < 0 || length.compareTo(MAX_LENGTH) > 0;
        if (wrong || length.getNano() % 1_000_000 != 0) {
            throw new IllegalArgumentException(
                    "the length " + length + " of a hold is not in whole milliseconds from 1 ms to 1 h");
        }
        return new ReservationRequest(name, attributes, cost, units, length, releaseOnError, trace);
    }

    /**
     * Returns a request whose hold gives everything back if its work fails, in {@link Tollgate#hold(ReservationRequest,
     * HoldWork)}. By default it stays charged, because what is unknown stays charged.
     *
     * @return the request
     */
    public ReservationRequest releaseOnError() {
        return new ReservationRequest(name, attributes, cost, units, expiresAfter, true, trace);
    }

    /**
     * Returns a request that passes on a trace context, as {@link CheckRequest#trace} does.
     *
     * @param traceparent the header of this name, or null
     * @param tracestate the header of this name, or null
     * @return the request
     */
    public ReservationRequest trace(String traceparent, String tracestate) {
        TraceContext given = TraceContext.of(traceparent, tracestate);
        return new ReservationRequest(name, attributes, cost, units, expiresAfter, releaseOnError, given);
    }

    /**
     * Returns the name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Returns the estimated cost.
     *
     * @return the units
     */
    public long cost() {
        return cost;
    }

    /**
     * Returns the attributes of the caller.
     *
     * @return each value is a String, a Boolean or a List of Strings
     */
    public Map<String, Object> attributes() {
        return attributes.values();
    }

    Attributes checkedAttributes() {
        return attributes;
    }

    int units() {
        return units;
    }

    /** The length of the hold, or null if it is the standard one. */
    Duration unusualLength() {
        return expiresAfter.equals(STANDARD_LENGTH) ? null : expiresAfter;
    }

    Duration length() {
        return expiresAfter;
    }

    boolean releasesOnError() {
        return releaseOnError;
    }

    TraceContext trace() {
        return trace;
    }

    /** Returns the name, the cost and the units. The attributes' values are keys, so they are left out. */
    @Override
    public String toString() {
        return "ReservationRequest[" + name + ", attributes=" + attributes + ", cost=" + cost + ", units=" + units + "]";
    }
}
