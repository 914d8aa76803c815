package io.github.tollgaters.client;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;

/**
 * Loads what the first call needs, while the client is made. A JVM that has just started takes a tenth of a second for
 * it, and far more on a busy machine: the first call would end at its timeout, and an open client would admit it.
 */
final class WarmUp {
    private static final AtomicBoolean DONE = new AtomicBoolean();
    private static final AtomicBoolean DONE_TLS = new AtomicBoolean();
    private static final byte[] ANSWER = ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nRateLimit: a\r\n"
            + "Content-Length: 85\r\n\r\n{\"allowed\":true,\"policy\":\"a\",\"quota\":\"5/1m\","
            + "\"limit\":5,\"used\":1,\"source\":\"store\"}     ").getBytes(StandardCharsets.UTF_8);

    private WarmUp() {
    }

    static void run(Address address, SSLContext tls) {
        try {
            if (!DONE.getAndSet(true)) {
                exchange(address);
            }
            if (tls != null && !DONE_TLS.getAndSet(true)) {
                SSLEngine engine = tls.createSSLEngine(address.host(), address.port());
                engine.setUseClientMode(true);
                engine.wrap(ByteBuffer.allocate(0), ByteBuffer.allocate(engine.getSession().getPacketBufferSize()));
            }
        } catch (IOException | CallFailure failed) {
            // The first call is slower then, or says what is wrong.
        }
    }

    private static void exchange(Address address) throws IOException, CallFailure {
        byte[] body = Bodies.check(CheckRequest.of("warm-up", Map.of("key", "value")).cost(2), OnFailure.OPEN);
        HttpTransport.bytesOf(address, new Transport.Request("/v1/check", Map.of("Content-Type", "application/json"), body));
        Connection.closedFor(address, null).close();
        ByteArrayInputStream bytes = new ByteArrayInputStream(ANSWER);
        Replies.reservation(new ResponseReader(bytes::read).read().reply()).decision().toString();
    }
}
