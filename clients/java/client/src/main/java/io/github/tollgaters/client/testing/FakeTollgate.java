package io.github.tollgaters.client.testing;

import io.github.tollgaters.client.CheckRequest;
import io.github.tollgaters.client.Count;
import io.github.tollgaters.client.CountRequest;
import io.github.tollgaters.client.Decision;
import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.Hold;
import io.github.tollgaters.client.OnFailure;
import io.github.tollgaters.client.Reservation;
import io.github.tollgaters.client.ReservationRequest;
import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.client.TollgateBuilder;
import io.github.tollgaters.client.Transport;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;

/**
 * The client without a service, for unit tests of an app. It admits everything until the test says otherwise, counts
 * nothing, and remembers the calls.
 *
 * <p>Everything else is the real client: it checks requests, and answers by {@link OnFailure} after a failure. To test
 * limits themselves, start the service with {@code --test-clock}.
 *
 * <pre>{@code
 * FakeTollgate tollgate = new FakeTollgate();
 * tollgate.deny("search", Duration.ofSeconds(30));
 * }</pre>
 */
public final class FakeTollgate implements Tollgate {
    private static final Duration SECOND = Duration.ofSeconds(1);

    private final Script script = new Script();
    private final Tollgate client;
    private Duration skipped = Duration.ZERO;

    /** Makes a fake that admits after a failure. */
    public FakeTollgate() {
        this(UnaryOperator.identity());
    }

    /**
     * Makes a fake with settings of the client, such as
     * {@code new FakeTollgate(settings -> settings.onFailure("login", OnFailure.CLOSED))}.
     *
     * @param settings changes the builder of the client
     */
    public FakeTollgate(UnaryOperator<TollgateBuilder> settings) {
        // The timeout is generous, because a test may run on a busy machine.
        TollgateBuilder builder = Tollgate.builder().url("http://127.0.0.1:1").token("fake")
                .timeout(Duration.ofSeconds(10)).logger(line -> {
                });
        client = settings.apply(builder).transport(script).build();
    }

    /**
     * Denies all further calls under a name with the reason {@code quota_exceeded}. Of counts, adding and reading get what
     * a full counter answers: with quotas the verdict, with a block that the key is blocked, and with a window a figure
     * above every limit. Other operations are admitted.
     *
     * @param name of checks, or the policy of counts
     * @param retryAfter the time to wait, or null if waiting does not help
     */
    public void deny(String name, Duration retryAfter) {
        script.set(Objects.requireNonNull(name, "name"), Script.denial(retryAfter));
    }

    /**
     * Answers all further calls under a name as the service would with this answer.
     *
     * @param name of checks, or the policy of counts
     * @param status such as 429
     * @param body in JSON, such as <code>{"allowed": false, "limit": 5, "source": "store"}</code>
     * @param headers under lower-case names, such as {@code ratelimit}
     */
    public void answer(String name, int status, String body, Map<String, String> headers) {
        Transport.Reply reply = new Transport.Reply(status, Map.copyOf(headers), body.getBytes(StandardCharsets.UTF_8));
        script.set(Objects.requireNonNull(name, "name"), Script.answer(reply));
    }

    /**
     * Leaves all further calls under a name without an answer, as during an outage.
     *
     * @param name of checks, or the policy of counts
     * @param kind what happens to the calls
     */
    public void fail(String name, FailureKind kind) {
        script.set(Objects.requireNonNull(name, "name"), Script.failure(Objects.requireNonNull(kind, "kind")));
    }

    /**
     * Admits a name again: forgets what the test has said about it.
     *
     * @param name of checks, or the policy of counts
     */
    public void admit(String name) {
        script.forget(name);
    }

    /**
     * Returns all calls so far.
     *
     * @return the calls in their order
     */
    public List<RecordedCall> calls() {
        return script.calls();
    }

    /**
     * Returns how long waits would have slept: in a fake, they do not.
     *
     * @return the sum of all pauses
     */
    public synchronized Duration skipped() {
        return skipped;
    }

    @Override
    public Decision await(CheckRequest request, Duration timeout) {
        if (timeout == null || timeout.isNegative()) {
            throw new IllegalArgumentException("the timeout " + timeout + " of a wait is no time");
        }
        Duration left = timeout;
        for (;;) {
            Decision decision = check(request);
            Duration pause = decision.retryAfter().orElse(
                    decision.reason().filter("in_flight_exceeded"::equals).isPresent() ? SECOND : null);
            if (decision.allowed() || pause == null || pause.compareTo(left) > 0) {
                return decision;
            }
            pause = pause.isZero() ? Duration.ofMillis(1) : pause;
            left = left.minus(pause);
            synchronized (this) {
                skipped = skipped.plus(pause);
            }
        }
    }

    @Override
    public CompletableFuture<Decision> awaitAsync(CheckRequest request, Duration timeout) {
        return CompletableFuture.completedFuture(await(request, timeout));
    }

    @Override
    public CompletableFuture<Decision> checkAsync(CheckRequest request) {
        return client.checkAsync(request);
    }

    @Override
    public CompletableFuture<Decision> peekAsync(CheckRequest request) {
        return client.peekAsync(request);
    }

    @Override
    public CompletableFuture<Count> countAsync(CountRequest request) {
        return client.countAsync(request);
    }

    @Override
    public CompletableFuture<Reservation> reserveAsync(ReservationRequest request) {
        return client.reserveAsync(request);
    }

    @Override
    public Decision check(CheckRequest request) {
        return client.check(request);
    }

    @Override
    public Decision peek(CheckRequest request) {
        return client.peek(request);
    }

    @Override
    public Count count(CountRequest request) {
        return client.count(request);
    }

    @Override
    public Reservation reserve(ReservationRequest request) {
        return client.reserve(request);
    }

    @Override
    public Hold hold(ReservationRequest request) {
        return client.hold(request);
    }

    @Override
    public Map<FailureKind, Long> failures() {
        return client.failures();
    }

    @Override
    public OnFailure onFailureOf(String name) {
        return client.onFailureOf(name);
    }

    @Override
    public void close() {
        client.close();
    }
}
