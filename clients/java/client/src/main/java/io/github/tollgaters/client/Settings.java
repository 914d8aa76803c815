package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;

/** The settings of a client, which are valid. The token may be null. */
record Settings(String address, String token, Duration timeout, OnFailure onFailure, Map<String, OnFailure> names,
        int maxConnections, Consumer<LogLine> logger) {
    OnFailure onFailureOf(String name) {
        return names.getOrDefault(name, onFailure);
    }

    /** Returns what a log may show: no token. */
    @Override
    public String toString() {
        return address + ", timeout=" + timeout + ", onFailure=" + onFailure;
    }
}
