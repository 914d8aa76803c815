package io.github.tollgaters.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLContext;

/**
 * Speaks HTTP/1.1 over TCP, TLS or a unix socket, and keeps connections.
 *
 * <p>It is no {@code java.net.http.HttpClient}, because that cannot keep the contract of clients on JDK 17. Its idle
 * connections live 1,200 s, and it has no bound of connections: both are properties of the whole JVM. So is
 * {@code jdk.httpclient.enableAllMethodRetry}, which sends a POST again after it was sent. It cannot be closed before
 * JDK 21, its timeout ends with the headers of an answer, and it has no unix sockets.
 */
final class HttpTransport implements Transport {
    /** The service closes idle connections after 120 s. The client is earlier, so that the two do not meet. */
    private static final Duration MAX_IDLE = Duration.ofSeconds(60);

    private final Address address;
    private final SSLContext tls;
    private final Background background;
    private final Duration maxIdle;
    private final Hosts hosts;
    private final Set<Connection> open = ConcurrentHashMap.newKeySet();
    private final ReentrantLock lock = new ReentrantLock();
    /** The connection that was used last is the first. */
    private final Deque<Connection> idle = new ArrayDeque<>();
    private boolean sweeping;
    private volatile boolean closed;

    HttpTransport(Address address, SSLContext tls, Background background) {
        this(address, tls, background, MAX_IDLE);
    }

    /** Closes connections that are idle for another time than the usual one; the context is null without TLS. */
    HttpTransport(Address address, SSLContext tls, Background background, Duration maxIdle) {
        this.address = address;
        this.tls = tls;
        this.background = background;
        this.maxIdle = maxIdle;
        this.hosts = new Hosts(address.host(), background);
    }

    @Override
    public Reply send(Request request, Duration timeout) throws CallFailure {
        if (Thread.currentThread().isInterrupted()) {
            // It cannot wait, and a look at idle connections would close them.
            throw interrupted();
        }
        if (closed) {
            throw closedClient();
        }
        long end = System.nanoTime() + timeout.toNanos();
        byte[] bytes = bytesOf(address, request);
        Connection connection = idleConnection();
        if (connection == null) {
            connection = connect(end);
        }
        connection.begin(end);
        try {
            ResponseReader.Whole whole = connection.exchange(bytes);
            if (connection.end() && whole.keepsAlive()) {
                keep(connection);
            } else {
                discard(connection);
            }
            return whole.reply();
        } catch (IOException failed) {
            boolean inTime = connection.end();
            discard(connection);
            throw failureOfExchange(failed, inTime);
        }
    }

    private CallFailure failureOfExchange(IOException failed, boolean inTime) {
        if (closed) {
            return closedClient();
        }
        if (failed instanceof ProtocolException) {
            return new CallFailure(FailureKind.INVALID, failed.getMessage());
        }
        if (Thread.currentThread().isInterrupted()) {
            return interrupted();
        }
        if (!inTime) {
            return new CallFailure(FailureKind.TIMEOUT, "no whole answer within the timeout");
        }
        String detail = "the connection to " + address + " broke: " + words(failed);
        return new CallFailure(FailureKind.CONNECTION, detail, CallFailure.Cause.BROKEN);
    }

    static CallFailure closedClient() {
        return new CallFailure(FailureKind.CONNECTION, "the client is closed");
    }

    static CallFailure interrupted() {
        return new CallFailure(FailureKind.CONNECTION, "the calling thread was interrupted");
    }

    private static String words(IOException failed) {
        return failed.getMessage() == null ? failed.getClass().getSimpleName() : failed.getMessage();
    }

    static byte[] bytesOf(Address address, Request request) {
        StringBuilder head = new StringBuilder(256);
        head.append("POST ").append(request.path()).append(" HTTP/1.1\r\nHost: ").append(address.authority()).append("\r\n");
        request.headers().forEach((name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
        head.append("Content-Length: ").append(request.body().length).append("\r\n\r\n");
        byte[] start = head.toString().getBytes(StandardCharsets.ISO_8859_1);
        byte[] bytes = new byte[start.length + request.body().length];
        System.arraycopy(start, 0, bytes, 0, start.length);
        System.arraycopy(request.body(), 0, bytes, start.length, request.body().length);
        return bytes;
    }

    /** Returns the idle connection that was used last and still stands, or null. */
    private Connection idleConnection() {
        for (;;) {
            Connection connection;
            lock.lock();
            try {
                connection = idle.pollFirst();
            } finally {
                lock.unlock();
            }
            if (connection == null) {
                return null;
            }
            if (connection.idleFor().compareTo(maxIdle) < 0 && connection.stands()) {
                return connection;
            }
            discard(connection);
        }
    }

    private void keep(Connection connection) {
        connection.rest();
        lock.lock();
        try {
            if (closed) {
                connection.close();
                return;
            }
            idle.addFirst(connection);
            if (sweeping) {
                return;
            }
            sweeping = true;
        } finally {
            lock.unlock();
        }
        background.schedule(this::sweep, maxIdle);
    }

    /** Closes the connections that have been idle for too long. */
    private void sweep() {
        Duration next;
        lock.lock();
        try {
            while (!idle.isEmpty() && idle.peekLast().idleFor().compareTo(maxIdle) >= 0) {
                discard(idle.pollLast());
            }
            sweeping = !idle.isEmpty() && !background.isClosed();
            if (!sweeping) {
                return;
            }
            next = maxIdle.minus(idle.peekLast().idleFor());
        } finally {
            lock.unlock();
        }
        background.schedule(this::sweep, next.isNegative() ? Duration.ZERO : next);
    }

    private void discard(Connection connection) {
        open.remove(connection);
        connection.close();
    }

    private Connection connect(long end) throws CallFailure {
        if (address.isUnix()) {
            return connect(end, connection -> connection.connectUnix(address.host()));
        }
        List<InetAddress> all = hosts.lookup(remaining(end));
        CallFailure last = null;
        for (int index = 0; index < all.size(); index++) {
            InetAddress to = all.get(index);
            // Each address has its share of the time: one that swallows everything must not take it all.
            long share = System.nanoTime() + remaining(end).toNanos() / (all.size() - index);
            try {
                return connect(share, connection -> {
                    connection.connectTcp(to, address.port());
                    if (address.isTls()) {
                        connection.secure(tls, address.host(), address.port());
                    }
                });
            } catch (CallFailure failure) {
                last = failure;
            }
        }
        throw last == null ? new CallFailure(FailureKind.CONNECTION, "the host of " + address + " has no address") : last;
    }

    private interface Step {
        void run(Connection connection) throws IOException;
    }

    private Connection connect(long end, Step step) throws CallFailure {
        Connection connection;
        try {
            connection = Connection.closedFor(address, background);
        } catch (IOException none) {
            throw new CallFailure(FailureKind.CONNECTION, "no socket for " + address + ": " + words(none));
        }
        open.add(connection);
        connection.begin(end);
        try {
            step.run(connection);
            if (connection.end() && !closed) {
                return connection;
            }
            discard(connection);
            throw closed ? closedClient() : tooLate();
        } catch (IOException failed) {
            boolean inTime = connection.end();
            discard(connection);
            if (closed) {
                throw closedClient();
            }
            if (Thread.currentThread().isInterrupted()) {
                throw interrupted();
            }
            throw inTime ? new CallFailure(FailureKind.CONNECTION, "no connection to " + address + ": " + words(failed)) : tooLate();
        }
    }

    private CallFailure tooLate() {
        return new CallFailure(FailureKind.TIMEOUT, "no connection to " + address + " within the timeout");
    }

    private static Duration remaining(long end) {
        return Duration.ofNanos(Math.max(0, end - System.nanoTime()));
    }

    @Override
    public void close() {
        lock.lock();
        try {
            closed = true;
            idle.clear();
        } finally {
            lock.unlock();
        }
        open.forEach(this::discard);
    }

    /** Returns the address. */
    @Override
    public String toString() {
        return "HttpTransport[" + address + "]";
    }
}
