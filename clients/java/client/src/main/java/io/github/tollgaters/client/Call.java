package io.github.tollgaters.client;

import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A call of the service.
 *
 * @param request what to send
 * @param repeats how often to send it again if its connection breaks, which takes the id of a hold
 * @param secrets what no log may show
 * @param reader reads the answer
 * @param unanswered is the client's own answer after a failure
 */
record Call<T>(Transport.Request request, int repeats, Supplier<List<String>> secrets, Reader<T> reader,
        Function<CallFailure, T> unanswered) {
    /** Reads an answer, or says which failure it is. */
    interface Reader<T> {
        T read(Transport.Reply reply) throws CallFailure;
    }
}
