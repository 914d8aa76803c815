package io.github.tollgaters.spring.config;

/** The body of the answer to a denied request. */
public enum ProblemBody {
    /** The problem of the clients of Tollgate: {@code type}, {@code title}, {@code status}, {@code detail}. */
    TOLLGATE,

    /** The problem of the Redis rate limiter starter, without the key. */
    STARTER
}
