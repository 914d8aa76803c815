package io.github.tollgaters.client;

import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** The client: what its calls ask and answer. A {@link Transport} brings the requests to the service. */
final class Client implements Tollgate {
    /** A request with the id of a hold is sent again so often if its connection breaks. */
    private static final int HOLD_REPEATS = 2;
    private static final Duration MIN_PAUSE = Duration.ofMillis(1);
    private static final Duration MAX_WAIT = Duration.ofDays(365);
    private static final int ID_BYTES = 16;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Settings settings;
    private final Transport transport;
    private final Background background;
    private final FailureLog log;
    private final Slots slots;
    private final Map<String, String> headers;

    Client(Settings settings, Transport transport, Background background) {
        this.settings = settings;
        this.transport = transport;
        this.background = background;
        this.log = new FailureLog(settings.logger(), background);
        this.slots = new Slots(settings.maxConnections());
        Map<String, String> standing = new LinkedHashMap<>();
        standing.put("Content-Type", "application/json");
        standing.put("User-Agent", "tollgate-java/" + Version.VERSION);
        if (settings.token() != null) {
            standing.put("Authorization", "Bearer " + settings.token());
        }
        this.headers = standing;
    }

    @Override
    public CompletableFuture<Decision> checkAsync(CheckRequest request) {
        return later(decision("/v1/check", request));
    }

    @Override
    public CompletableFuture<Decision> peekAsync(CheckRequest request) {
        return later(decision("/v1/peek", request));
    }

    @Override
    public CompletableFuture<Decision> awaitAsync(CheckRequest request, Duration timeout) {
        long end = endOfWait(timeout);
        CompletableFuture<Decision> admitted = new CompletableFuture<>();
        attempt(decision("/v1/check", request), end, admitted);
        return admitted;
    }

    @Override
    public CompletableFuture<Count> countAsync(CountRequest request) {
        return later(counting(request));
    }

    @Override
    public CompletableFuture<Reservation> reserveAsync(ReservationRequest request) {
        return later(reservation(request));
    }

    @Override
    public Decision check(CheckRequest request) {
        return now(decision("/v1/check", request));
    }

    @Override
    public Decision peek(CheckRequest request) {
        return now(decision("/v1/peek", request));
    }

    @Override
    public Decision await(CheckRequest request, Duration timeout) {
        long end = endOfWait(timeout);
        Call<Decision> check = decision("/v1/check", request);
        for (;;) {
            Decision decision = now(check);
            Optional<Duration> pause = pauseAfter(decision, end);
            if (pause.isEmpty() || background.isClosed()) {
                return decision;
            }
            try {
                TimeUnit.NANOSECONDS.sleep(pause.get().toNanos());
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return decision;
            }
        }
    }

    @Override
    public Count count(CountRequest request) {
        return now(counting(request));
    }

    @Override
    public Reservation reserve(ReservationRequest request) {
        return now(reservation(request));
    }

    @Override
    public Hold hold(ReservationRequest request) {
        return new Hold(reserve(request), background);
    }

    @Override
    public Map<FailureKind, Long> failures() {
        return log.counts();
    }

    @Override
    public OnFailure onFailureOf(String name) {
        return settings.onFailureOf(name);
    }

    @Override
    public void close() {
        try {
            // First: the calls in flight end because of it, and not because their time seems to be over.
            transport.close();
        } finally {
            background.close();
            log.flush();
        }
    }

    /** Returns the address and the settings, and no token. */
    @Override
    public String toString() {
        return "Tollgate[" + settings + "]";
    }

    /** Makes a call in this thread. */
    <T> T now(Call<T> call) {
        long end = endOfCall();
        try {
            takeSlot(end);
        } catch (CallFailure failure) {
            return unanswered(call, failure);
        }
        return withSlot(call, end);
    }

    /** Makes a call in a thread of the client. */
    <T> CompletableFuture<T> later(Call<T> call) {
        long end = endOfCall();
        CompletableFuture<T> result = new CompletableFuture<>();
        if (background.isClosed()) {
            result.complete(unanswered(call, HttpTransport.closedClient()));
        } else if (slots.take()) {
            start(call, end, result);
        } else {
            CompletableFuture<Boolean> waiter = slots.await();
            Background.Task timeout = background.schedule(() -> slots.giveUp(waiter), remaining(end));
            waiter.thenAccept(hasSlot -> {
                timeout.cancel();
                if (hasSlot) {
                    start(call, end, result);
                } else {
                    failWithoutSlot(call, withoutSlot(), result);
                }
            });
        }
        return result;
    }

    /** Starts a call that has a slot. */
    private <T> void start(Call<T> call, long end, CompletableFuture<T> result) {
        try {
            background.execute(() -> complete(result, () -> withSlot(call, end)));
        } catch (OutOfMemoryError noThread) {
            slots.give();
            CallFailure failure = new CallFailure(FailureKind.CONNECTION, "the system has no thread for the call");
            complete(result, () -> unanswered(call, failure));
        }
    }

    /** Ends a call that has no slot. It may be in the thread of the timers, which must not wait for a logger. */
    private <T> void failWithoutSlot(Call<T> call, CallFailure failure, CompletableFuture<T> result) {
        try {
            background.execute(() -> complete(result, () -> unanswered(call, failure)));
        } catch (OutOfMemoryError noThread) {
            complete(result, () -> unanswered(call, failure));
        }
    }

    /** Ends a call, whatever happens: nobody waits for ever. */
    private static <T> void complete(CompletableFuture<T> result, Supplier<T> answer) {
        try {
            result.complete(answer.get());
        } catch (Throwable fault) {
            result.completeExceptionally(fault);
        }
    }

    /** Makes a call that has a slot. */
    private <T> T withSlot(Call<T> call, long end) {
        try {
            try {
                return exchange(call, end);
            } finally {
                slots.give();
            }
        } catch (CallFailure failure) {
            return unanswered(call, failure);
        }
    }

    private void takeSlot(long end) throws CallFailure {
        if (background.isClosed()) {
            throw HttpTransport.closedClient();
        }
        if (slots.take()) {
            return;
        }
        CompletableFuture<Boolean> waiter = slots.await();
        try {
            if (waiter.get(remaining(end).toNanos(), TimeUnit.NANOSECONDS)) {
                return;
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            if (slots.giveUp(waiter)) {
                throw HttpTransport.interrupted();
            }
            // The slot came in the same moment.
            return;
        } catch (TimeoutException | ExecutionException late) {
            if (!slots.giveUp(waiter)) {
                return;
            }
        }
        throw withoutSlot();
    }

    /** Sends a request, again if its connection breaks and the call may be repeated, and reads the answer. */
    private <T> T exchange(Call<T> call, long end) throws CallFailure {
        for (int repeat = 0;; repeat++) {
            try {
                return call.reader().read(transport.send(call.request(), remaining(end)));
            } catch (CallFailure failure) {
                if (!failure.broken() || repeat == call.repeats() || background.isClosed()) {
                    throw failure;
                }
            } catch (RuntimeException | Error wrong) {
                // A transport of the app that has a fault, or another version of a library than the client's.
                throw new CallFailure(FailureKind.CONNECTION, "the transport failed: " + wrong.getClass().getName());
            }
        }
    }

    private <T> T unanswered(Call<T> call, CallFailure failure) {
        log.add(failure, call.secrets());
        return call.unanswered().apply(failure);
    }

    private void attempt(Call<Decision> check, long end, CompletableFuture<Decision> admitted) {
        later(check).thenAccept(decision -> {
            Optional<Duration> pause = pauseAfter(decision, end);
            if (pause.isEmpty()) {
                admitted.complete(decision);
                return;
            }
            background.schedule(() -> {
                if (background.isClosed()) {
                    admitted.complete(decision);
                } else if (!admitted.isDone()) {
                    attempt(check, end, admitted);
                }
            }, pause.get());
        });
    }

    /** The time to sleep before the next attempt of a wait; empty if its answer is this decision. */
    private static Optional<Duration> pauseAfter(Decision decision, long end) {
        if (decision.allowed() || decision.failure().isPresent()) {
            return Optional.empty();
        }
        Optional<Duration> pause = decision.pause().map(time -> time.compareTo(MIN_PAUSE) < 0 ? MIN_PAUSE : time);
        return pause.filter(time -> time.compareTo(remaining(end)) <= 0);
    }

    private Call<Decision> decision(String path, CheckRequest request) {
        OnFailure onFailure = request.storeFailure().orElse(onFailureOf(request.name()));
        byte[] body = Bodies.check(request, onFailure);
        return new Call<>(request(path, body, request.trace()), 0, () -> secrets(request.checkedAttributes(), null),
                reply -> Replies.reservation(reply).decision(), failure -> ownDecision(onFailure, failure));
    }

    private Call<Reservation> reservation(ReservationRequest request) {
        byte[] random = new byte[ID_BYTES];
        RANDOM.nextBytes(random);
        String id = HexFormat.of().formatHex(random);
        return new Call<>(request("/v1/reserve", Bodies.reservation(request, id), request.trace()), HOLD_REPEATS,
                () -> secrets(request.checkedAttributes(), id),
                reply -> new Reservation(this, request, Replies.reservation(reply)),
                failure -> new Reservation(this, request, ownDecision(onFailureOf(request.name()), failure)));
    }

    /** A renewal or a settlement. */
    Call<Settlement> holdCall(String path, byte[] body, ReservationRequest request, String hold,
            Consumer<Replies.Settled> answered) {
        return new Call<>(request(path, body, request.trace()), HOLD_REPEATS,
                () -> secrets(request.checkedAttributes(), hold), reply -> {
                    Replies.Settled settled = Replies.settlement(reply);
                    answered.accept(settled);
                    return Settlement.of(settled.status());
                }, failure -> Settlement.failed(failure.kind()));
    }

    private Call<Count> counting(CountRequest request) {
        OnFailure onFailure = request.storeFailure().orElse(onFailureOf(request.policy()));
        byte[] body = Bodies.count(request.whole(), onFailure);
        boolean hasVerdict = request.operation().asks() && !request.quotas().isEmpty();
        return new Call<>(request("/v1/count", body, request.trace()), 0, () -> secrets(request.checkedAttributes(), null),
                Replies::count,
                failure -> Count.ofClient(hasVerdict ? onFailure == OnFailure.OPEN : null, failure.kind()));
    }

    /**
     * The decision of the client itself. If the service refuses because its store is away or full, its policy is closed,
     * and an open client must not admit what the policy refuses.
     */
    private static Decision ownDecision(OnFailure onFailure, CallFailure failure) {
        return Decision.ofClient(!failure.denies() && onFailure == OnFailure.OPEN, failure.kind());
    }

    private Transport.Request request(String path, byte[] body, TraceContext trace) {
        if (trace.parent() == null) {
            return new Transport.Request(path, headers, body);
        }
        Map<String, String> traced = new LinkedHashMap<>(headers);
        traced.put("traceparent", trace.parent());
        if (trace.state() != null) {
            traced.put("tracestate", trace.state());
        }
        return new Transport.Request(path, traced, body);
    }

    private List<String> secrets(Attributes attributes, String hold) {
        List<String> secrets = new ArrayList<>(attributes.texts());
        if (hold != null) {
            secrets.add(hold);
        }
        if (settings.token() != null) {
            secrets.add(settings.token());
        }
        return secrets;
    }

    private long endOfCall() {
        return System.nanoTime() + settings.timeout().toNanos();
    }

    private static long endOfWait(Duration timeout) {
        if (timeout == null || timeout.isNegative()) {
            throw new IllegalArgumentException("the timeout " + timeout + " of a wait is no time");
        }
        return System.nanoTime() + (timeout.compareTo(MAX_WAIT) > 0 ? MAX_WAIT : timeout).toNanos();
    }

    private static Duration remaining(long end) {
        return Duration.ofNanos(Math.max(0, end - System.nanoTime()));
    }

    private CallFailure withoutSlot() {
        return background.isClosed() ? HttpTransport.closedClient()
                : new CallFailure(FailureKind.TIMEOUT, "no free connection within the timeout");
    }
}
