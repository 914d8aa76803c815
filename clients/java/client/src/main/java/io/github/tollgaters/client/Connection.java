package io.github.tollgaters.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/** A connection to the service, which is used by one call at a time. */
final class Connection {
    /** No call uses the connection. */
    private static final long NO_DEADLINE = 0;
    /** The time of a call was over, so the connection was closed. */
    private static final long EXPIRED = 1;

    private final SocketChannel channel;
    private final Background background;
    /** When the call that uses the connection has to end, on the clock of {@link System#nanoTime}. */
    private final AtomicLong deadline = new AtomicLong(NO_DEADLINE);
    /** When the next timer fires; 0 if none is set. */
    private final AtomicLong nextLook = new AtomicLong();
    private final ResponseReader reader = new ResponseReader(this::read);
    /** Null without TLS. */
    private SSLSocket tls;
    private long idleSince;

    private Connection(SocketChannel channel, Background background) {
        this.channel = channel;
        this.background = background;
    }

    /** Makes a connection that is not connected, for a unix socket or for TCP. */
    static Connection closedFor(Address address, Background background) throws IOException {
        if (!address.isUnix()) {
            return new Connection(SocketChannel.open(), background);
        }
        try {
            return new Connection(SocketChannel.open(StandardProtocolFamily.UNIX), background);
        } catch (UnsupportedOperationException none) {
            throw new IOException("the system has no Unix sockets", none);
        }
    }

    void connectUnix(String path) throws IOException {
        channel.connect(UnixDomainSocketAddress.of(path));
    }

    void connectTcp(InetAddress to, int port) throws IOException {
        SocketAddress address = new InetSocketAddress(to, port);
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        channel.connect(address);
    }

    /** Agrees on TLS with a server whose certificate has the name of the host. */
    void secure(SSLContext context, String host, int port) throws IOException {
        tls = (SSLSocket) context.getSocketFactory().createSocket(channel.socket(), host, port, true);
        SSLParameters parameters = tls.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        tls.setSSLParameters(parameters);
        tls.startHandshake();
    }

    /** Sends a request and reads its answer. */
    ResponseReader.Whole exchange(byte[] request) throws IOException {
        if (tls != null) {
            tls.getOutputStream().write(request);
        } else {
            ByteBuffer bytes = ByteBuffer.wrap(request);
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
        }
        return reader.read();
    }

    private int read(byte[] buffer, int offset, int length) throws IOException {
        return tls != null ? tls.getInputStream().read(buffer, offset, length)
                : channel.read(ByteBuffer.wrap(buffer, offset, length));
    }

    /** Begins a call: at its end, the connection is closed, which wakes whatever waits for it. */
    void begin(long end) {
        long time = plain(end);
        deadline.set(time);
        watch(time);
    }

    /** 0 and 1 have a meaning of their own, and a nanosecond more has none. */
    private static long plain(long time) {
        return time == NO_DEADLINE || time == EXPIRED ? EXPIRED + 1 : time;
    }

    /** Ends a call. Returns false if its time was over. */
    boolean end() {
        return deadline.getAndSet(NO_DEADLINE) != EXPIRED;
    }

    /** Sets a timer, unless one fires before. It looks at the deadline of then: most calls end long before theirs. */
    private void watch(long end) {
        long next = nextLook.get();
        if (next == NO_DEADLINE || next - end > 0) {
            nextLook.set(end);
            background.schedule(() -> look(end), Duration.ofNanos(Math.max(0, end - System.nanoTime())));
        }
    }

    private void look(long at) {
        nextLook.compareAndSet(at, NO_DEADLINE);
        long end = deadline.get();
        if (end == NO_DEADLINE || end == EXPIRED) {
            return;
        }
        if (background.isClosed() || end - System.nanoTime() <= 0) {
            if (deadline.compareAndSet(end, EXPIRED)) {
                close();
            }
        } else {
            watch(end);
        }
    }

    /** Notes that the connection is idle from now on. */
    void rest() {
        idleSince = System.nanoTime();
    }

    Duration idleFor() {
        return Duration.ofNanos(System.nanoTime() - idleSince);
    }

    /** Says whether an idle connection still stands. If there is something to read, the service has closed it, or errs. */
    boolean stands() {
        try {
            if (tls != null && tls.getInputStream().available() > 0) {
                return false;
            }
            channel.configureBlocking(false);
            int count = channel.read(ByteBuffer.allocate(1));
            channel.configureBlocking(true);
            return count == 0;
        } catch (IOException broken) {
            return false;
        }
    }

    /** Closes the connection, and wakes a call that waits for it. It never waits. */
    void close() {
        try {
            channel.close();
        } catch (IOException ignored) {
            // It is closed in any case.
        }
    }
}
