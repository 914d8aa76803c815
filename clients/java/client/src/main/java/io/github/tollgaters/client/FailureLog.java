package io.github.tollgaters.client;

import java.time.Duration;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/** Counts the calls without an answer by kind, and logs a line a minute about them, the first one at once. */
final class FailureLog {
    private static final Duration BETWEEN_LINES = Duration.ofMinutes(1);

    private final Consumer<LogLine> logger;
    private final Background background;
    private final long betweenLines;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<FailureKind, Long> total = new EnumMap<>(FailureKind.class);
    private final Map<FailureKind, Long> unlogged = new EnumMap<>(FailureKind.class);
    private CallFailure last;
    private Supplier<List<String>> secretsOfLast;
    private boolean logged;
    private long loggedAt;
    private boolean planned;

    FailureLog(Consumer<LogLine> logger, Background background) {
        this(logger, background, BETWEEN_LINES);
    }

    FailureLog(Consumer<LogLine> logger, Background background, Duration betweenLines) {
        this.logger = logger;
        this.background = background;
        this.betweenLines = betweenLines.toNanos();
    }

    /** Counts a failure. The secrets are what its detail must not show if it was received. */
    void add(CallFailure failure, Supplier<List<String>> secrets) {
        LogLine line = null;
        long wait;
        lock.lock();
        try {
            total.merge(failure.kind(), 1L, Long::sum);
            unlogged.merge(failure.kind(), 1L, Long::sum);
            last = failure;
            secretsOfLast = secrets;
            wait = logged ? loggedAt + betweenLines - System.nanoTime() : 0;
            if (planned || wait > 0 && background.isClosed()) {
                return;
            }
            if (wait > 0) {
                planned = true;
            } else {
                // Under the same lock: of several first failures, one has the line.
                line = takeLine();
            }
        } finally {
            lock.unlock();
        }
        if (line == null) {
            background.schedule(() -> background.execute(this::flush), Duration.ofNanos(wait));
        } else {
            write(line);
        }
    }

    /** Logs the failures that no line has named yet. */
    void flush() {
        LogLine line;
        lock.lock();
        try {
            line = takeLine();
        } finally {
            lock.unlock();
        }
        if (line != null) {
            write(line);
        }
    }

    /** Logs a line, without the lock: a logger may be slow. */
    private void write(LogLine line) {
        try {
            logger.accept(line);
        } catch (Throwable ignored) {
            // A logger that fails, such as with the error of an assertion, must not take the decision down with it.
        }
    }

    /** Returns the line about the failures that no line has named yet, or null. The caller has the lock. */
    private LogLine takeLine() {
        planned = false;
        if (unlogged.isEmpty()) {
            return null;
        }
        long calls = unlogged.values().stream().mapToLong(Long::longValue).sum();
        String kinds = unlogged.entrySet().stream().map(kind -> kind.getValue() + " " + kind.getKey())
                .collect(Collectors.joining(", "));
        // The client's own words have no key, and a key that is 127.0.0.1 would hide where the service is.
        List<String> secrets = last.received() ? secretsOfLast.get() : List.of();
        String message = "tollgate: " + calls + (calls == 1 ? " call" : " calls") + " had no decision of the service ("
                + kinds + "); the last one: " + last.kind() + ": " + Masking.masked(last.getMessage(), secrets);
        boolean refused = unlogged.containsKey(FailureKind.REFUSED);
        LogLine line = new LogLine(refused ? System.Logger.Level.ERROR : System.Logger.Level.WARNING, message, unlogged);
        unlogged.clear();
        last = null;
        secretsOfLast = null;
        logged = true;
        loggedAt = System.nanoTime();
        return line;
    }

    /** Returns the counts by kind. Kinds that did not occur are absent. */
    Map<FailureKind, Long> counts() {
        lock.lock();
        try {
            return Map.copyOf(total);
        } finally {
            lock.unlock();
        }
    }
}
