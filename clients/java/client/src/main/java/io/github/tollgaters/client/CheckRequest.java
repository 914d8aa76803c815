package io.github.tollgaters.client;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * What a check asks. Requests are immutable: each method returns a changed copy.
 *
 * <p>Its name says what the request of the app does, such as {@code search}. It is sent as the attribute
 * {@code action}, which policies match. Write it yourself, or use the template of the matched route; never use the path
 * of a request.
 */
public final class CheckRequest {
    private final String name;
    private final Attributes attributes;
    private final long cost;
    private final List<String> quotas;
    private final OnFailure onStoreFailure;
    private final TraceContext trace;

    private CheckRequest(String name, Attributes attributes, long cost, List<String> quotas, OnFailure onStoreFailure,
            TraceContext trace) {
        this.name = name;
        this.attributes = attributes;
        this.cost = cost;
        this.quotas = quotas;
        this.onStoreFailure = onStoreFailure;
        this.trace = trace;
    }

    /**
     * Returns a request of the cost 1.
     *
     * @param name 1 to 1,024 bytes
     * @param attributes at most 63. Each value is a String of at most 1,024 bytes, a Boolean, or a Collection of at most
     *         64 such Strings. The names have 1 to 128 characters, and none is {@code action}.
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static CheckRequest of(String name, Map<String, ?> attributes) {
        String checked = Text.name(name, "the name of a check");
        return new CheckRequest(checked, Attributes.ofCheck(attributes), 1, List.of(), null, TraceContext.NONE);
    }

    /**
     * Returns a request with another cost.
     *
     * @param cost the units that the request uses, from 0 to 2^32-1. A check at the cost 0 charges nothing.
     * @return the request
     * @throws IllegalArgumentException if the cost is out of its range
     */
    public CheckRequest cost(long cost) {
        return new CheckRequest(name, attributes, Units.cost(cost), quotas, onStoreFailure, trace);
    }

    /**
     * Returns a request that carries its own limits, which replace the policies. All attributes together are the key, so
     * there is at least one, and the name is that of the counters. The service needs {@code --caller-quotas}.
     *
     * @param quotas 1 to 8 limits, such as {@code 5/1m}
     * @return the request
     * @throws IllegalArgumentException if there are no or too many quotas, or an empty one
     */
    public CheckRequest quotas(List<String> quotas) {
        return new CheckRequest(name, attributes, cost, Quotas.checked(quotas), onStoreFailure, trace);
    }

    /**
     * Returns a request that says what happens if the service cannot reach its store, or does not answer. Only for requests
     * with quotas: otherwise the policy and the client say it. Default: what the client does for the name.
     *
     * @param answer what to do
     * @return the request
     */
    public CheckRequest onStoreFailure(OnFailure answer) {
        return new CheckRequest(name, attributes, cost, quotas, Objects.requireNonNull(answer), trace);
    }

    /**
     * Returns a request that passes on a trace context. A value that no header can have is left out.
     *
     * @param traceparent the header of this name, or null
     * @param tracestate the header of this name, or null
     * @return the request
     */
    public CheckRequest trace(String traceparent, String tracestate) {
        return new CheckRequest(name, attributes, cost, quotas, onStoreFailure, TraceContext.of(traceparent, tracestate));
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
     * Returns the cost.
     *
     * @return the units
     */
    public long cost() {
        return cost;
    }

    /**
     * Returns the limits that the request carries.
     *
     * @return the limits; empty if policies decide
     */
    public List<String> quotas() {
        return quotas;
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

    Optional<OnFailure> storeFailure() {
        return Optional.ofNullable(onStoreFailure);
    }

    TraceContext trace() {
        return trace;
    }

    /** Returns the name, the cost and the limits. The attributes' values are keys, so they are left out. */
    @Override
    public String toString() {
        return "CheckRequest[" + name + ", attributes=" + attributes + ", cost=" + cost + ", quotas=" + quotas + "]";
    }
}
