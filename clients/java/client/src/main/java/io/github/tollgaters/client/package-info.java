/**
 * A client of Tollgate, an exact rate limiter that many processes share.
 *
 * <p>{@link io.github.tollgaters.client.Tollgate} is the client. Denials and calls without an answer of the service are
 * {@linkplain io.github.tollgaters.client.Decision decisions} and never exceptions; wrong arguments are
 * {@link IllegalArgumentException}s.
 */
package io.github.tollgaters.client;
