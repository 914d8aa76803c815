/** A client of Tollgate, an exact rate limiter that many processes share. */
module io.github.tollgaters.client {
    requires com.fasterxml.jackson.core;

    exports io.github.tollgaters.client;
    exports io.github.tollgaters.client.testing;
}
