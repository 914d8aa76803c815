package io.github.tollgaters.client;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * What a count asks. Requests are immutable: each method returns a changed copy.
 *
 * <p>A count has either quotas or a window. The key is all attributes together. The service needs
 * {@code --caller-quotas}.
 */
public final class CountRequest {
    /** What a count does with its counter. */
    public enum Operation {
        /** Counts the cost, also past the limit. */
        ADD,
        /** Gives back at most what is used in the open window. */
        SUBTRACT,
        /** Changes nothing. */
        GET,
        /** Sets what is used. */
        SET,
        /** Forgets the counter. */
        RESET;

        /** Returns the operation as the service names it, such as {@code add}. */
        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT);
        }

        boolean takesCost() {
            return this == ADD || this == SUBTRACT || this == GET;
        }

        /** Says whether the operation has an answer to give during an outage. */
        boolean asks() {
            return this == ADD || this == GET;
        }
    }

    /** Ten years, which is the longest window of the service. */
    private static final Duration MAX_BLOCK = Duration.ofDays(3_653);

    private final Operation operation;
    private final String policy;
    private final Attributes attributes;
    private final Body body;

    /** What may be absent. */
    private record Body(List<String> quotas, String window, long cost, Long used, OnFailure onStoreFailure,
            Duration block, TraceContext trace) {
    }

    private CountRequest(Operation operation, String policy, Attributes attributes, Body body) {
        this.operation = operation;
        this.policy = policy;
        this.attributes = attributes;
        this.body = body;
    }

    /**
     * Returns a request that adds one unit.
     *
     * @param policy the name under which the counters are kept
     * @param attributes the key: at least one attribute, as in {@link CheckRequest#of}
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static CountRequest add(String policy, Map<String, ?> attributes) {
        return of(Operation.ADD, policy, attributes);
    }

    /**
     * Returns a request that gives back one unit.
     *
     * @param policy as in {@link #add}
     * @param attributes as in {@link #add}
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static CountRequest subtract(String policy, Map<String, ?> attributes) {
        return of(Operation.SUBTRACT, policy, attributes);
    }

    /**
     * Returns a request that reads a counter.
     *
     * @param policy as in {@link #add}
     * @param attributes as in {@link #add}
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static CountRequest get(String policy, Map<String, ?> attributes) {
        return of(Operation.GET, policy, attributes);
    }

    /**
     * Returns a request that sets a counter to {@link #used}.
     *
     * @param policy as in {@link #add}
     * @param attributes as in {@link #add}
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static CountRequest set(String policy, Map<String, ?> attributes) {
        return of(Operation.SET, policy, attributes);
    }

    /**
     * Returns a request that forgets a counter.
     *
     * @param policy as in {@link #add}
     * @param attributes as in {@link #add}
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static CountRequest reset(String policy, Map<String, ?> attributes) {
        return of(Operation.RESET, policy, attributes);
    }

    /**
     * Returns a request of an operation.
     *
     * @param operation what to do
     * @param policy as in {@link #add}
     * @param attributes as in {@link #add}
     * @return the request
     * @throws IllegalArgumentException if the name or an attribute is wrong
     */
    public static CountRequest of(Operation operation, String policy, Map<String, ?> attributes) {
        Objects.requireNonNull(operation);
        String name = Text.name(policy, "the policy of a count");
        Body body = new Body(List.of(), null, 1, null, null, null, TraceContext.NONE);
        return new CountRequest(operation, name, Attributes.ofCount(attributes), body);
    }

    /**
     * Returns a request under these limits.
     *
     * @param quotas 1 to 8 limits, such as {@code 5/1m@first_hit}
     * @return the request
     * @throws IllegalArgumentException if there are none or too many
     */
    public CountRequest quotas(List<String> quotas) {
        return with(new Body(Quotas.checked(quotas), body.window, body.cost, body.used, body.onStoreFailure, body.block,
                body.trace));
    }

    /**
     * Returns a request in a window without a limit.
     *
     * @param window such as {@code 1m@first_hit}
     * @return the request
     * @throws IllegalArgumentException if it is empty or too long
     */
    public CountRequest window(String window) {
        return with(new Body(body.quotas, Text.name(window, "the window of a count"), body.cost, body.used,
                body.onStoreFailure, body.block, body.trace));
    }

    /**
     * Returns a request of another cost; for adding, subtracting and reading.
     *
     * @param cost from 0 to 2^32-1
     * @return the request
     * @throws IllegalArgumentException if the cost is out of its range, or if the operation takes none
     */
    public CountRequest cost(long cost) {
        if (!operation.takesCost()) {
            throw new IllegalArgumentException("the operation " + operation + " takes no cost");
        }
        return with(new Body(body.quotas, body.window, Units.cost(cost), body.used, body.onStoreFailure, body.block,
                body.trace));
    }

    /**
     * Returns a request that sets this count; for {@link #set} alone, which needs it.
     *
     * @param used the new count, at least 0
     * @return the request
     * @throws IllegalArgumentException if it is negative, or if the operation sets nothing
     */
    public CountRequest used(long used) {
        if (operation != Operation.SET || used < 0) {
            throw new IllegalArgumentException("used is for the operation set alone, and at least 0");
        }
        return with(new Body(body.quotas, body.window, body.cost, used, body.onStoreFailure, body.block, body.trace));
    }

    /**
     * Returns a request that says what adding and reading answer if the service cannot reach its store, or does not
     * answer. Default: what the client does for the policy's name.
     *
     * @param answer what to do
     * @return the request
     */
    public CountRequest onStoreFailure(OnFailure answer) {
        return with(new Body(body.quotas, body.window, body.cost, body.used, Objects.requireNonNull(answer), body.block,
                body.trace));
    }

    /**
     * Returns a request that blocks a key above its limit for this time; for adding, reading and forgetting, under one quota
     * of a fixed window. A key that is blocked is not counted; after its block, counting begins anew.
     *
     * @param length in whole milliseconds, from 1 ms to 3,653 days
     * @return the request
     * @throws IllegalArgumentException if the length is out of its range
     */
    public CountRequest block(Duration length) {
        boolean wrong = length == null || length.compareTo(Duration.ofMillis(1)) < 0 || length.compareTo(MAX_BLOCK) > 0;
        if (wrong || length.getNano() % 1_000_000 != 0) {
            throw new IllegalArgumentException("the block " + length + " is not in whole milliseconds from 1 ms to 3,653 days");
        }
        return with(new Body(body.quotas, body.window, body.cost, body.used, body.onStoreFailure, length, body.trace));
    }

    /**
     * Returns a request that passes on a trace context, as {@link CheckRequest#trace} does.
     *
     * @param traceparent the header of this name, or null
     * @param tracestate the header of this name, or null
     * @return the request
     */
    public CountRequest trace(String traceparent, String tracestate) {
        return with(new Body(body.quotas, body.window, body.cost, body.used, body.onStoreFailure, body.block,
                TraceContext.of(traceparent, tracestate)));
    }

    private CountRequest with(Body changed) {
        return new CountRequest(operation, policy, attributes, changed);
    }

    /** Returns the request if it is whole: what depends on several settings. */
    CountRequest whole() {
        if (body.quotas.isEmpty() == (body.window == null)) {
            throw new IllegalArgumentException("a count needs either quotas or a window");
        }
        if (operation == Operation.SET && body.used == null) {
            throw new IllegalArgumentException("the operation set needs used");
        }
        boolean blocks = operation == Operation.ADD || operation == Operation.GET || operation == Operation.RESET;
        if (body.block != null && (body.quotas.size() != 1 || !blocks)) {
            throw new IllegalArgumentException("a block needs one quota, and the operation add, get or reset");
        }
        return this;
    }

    /**
     * Returns what the count does.
     *
     * @return the operation
     */
    public Operation operation() {
        return operation;
    }

    /**
     * Returns the name under which the counters are kept.
     *
     * @return the name
     */
    public String policy() {
        return policy;
    }

    /**
     * Returns the key.
     *
     * @return each value is a String, a Boolean or a List of Strings
     */
    public Map<String, Object> attributes() {
        return attributes.values();
    }

    /**
     * Returns the cost.
     *
     * @return the units
     */
    public long cost() {
        return body.cost;
    }

    Attributes checkedAttributes() {
        return attributes;
    }

    List<String> quotas() {
        return body.quotas;
    }

    Optional<String> window() {
        return Optional.ofNullable(body.window);
    }

    OptionalLong used() {
        return body.used == null ? OptionalLong.empty() : OptionalLong.of(body.used);
    }

    Optional<OnFailure> storeFailure() {
        return Optional.ofNullable(body.onStoreFailure);
    }

    Optional<Duration> block() {
        return Optional.ofNullable(body.block);
    }

    TraceContext trace() {
        return body.trace;
    }

    /** Returns the operation, the policy and the limits. The attributes' values are keys, so they are left out. */
    @Override
    public String toString() {
        return "CountRequest[" + operation + ", " + policy + ", attributes=" + attributes + ", quotas=" + body.quotas
                + ", window=" + body.window + ", block=" + body.block + "]";
    }
}
