package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Map;

/**
 * Sends the requests of a client. A client has its own, which speaks HTTP/1.1; this interface is for those who need
 * another one, such as a fake.
 *
 * <p>A transport is called by many threads at once, and no more often than the client has connections.
 */
public interface Transport extends AutoCloseable {
    /**
     * Sends a request once and waits for its answer. A request of which a byte may have been sent must not be sent again.
     *
     * @param request what to send
     * @param timeout the time within which this method returns
     * @return the whole answer
     * @throws CallFailure if there is none
     */
    Reply send(Request request, Duration timeout) throws CallFailure;

    /** Ends all connections. Requests that wait fail. */
    @Override
    void close();

    /**
     * A request, which is a POST.
     *
     * @param path such as {@code /v1/check}
     * @param headers those of the client, without {@code Host} and {@code Content-Length}
     * @param body in JSON
     */
    record Request(String path, Map<String, String> headers, byte[] body) {
        /** Returns the path alone: the rest has a token and keys. */
        @Override
        public String toString() {
            return "Request[" + path + "]";
        }
    }

    /**
     * An answer.
     *
     * @param status from 200
     * @param headers under lower-case names. Fields that came several times are joined by commas.
     * @param body at most 1 MiB
     */
    record Reply(int status, Map<String, String> headers, byte[] body) {
        /** Returns the status alone. */
        @Override
        public String toString() {
            return "Reply[" + status + "]";
        }
    }
}
