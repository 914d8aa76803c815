package io.github.tollgaters.spring.reactive;

import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.http.HttpHeaders;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * The limit headers of a response of WebFlux, kept until the response begins. Several limits of a request may decide at
 * the same time, each on a thread of its own, but only one thread may change the headers of a response.
 */
public final class LimitHeaders {
    private static final String ATTRIBUTE = LimitHeaders.class.getName();

    private final Map<String, String> headers = new LinkedHashMap<>();

    private LimitHeaders() {}

    /**
     * Returns the limit headers of a response. The first call must come before the request reaches the app.
     *
     * @param exchange the request and its response
     * @return the headers
     */
    public static LimitHeaders of(ServerWebExchange exchange) {
        return (LimitHeaders) exchange.getAttributes().computeIfAbsent(ATTRIBUTE, name -> {
            LimitHeaders made = new LimitHeaders();
            ServerHttpResponse response = exchange.getResponse();
            response.beforeCommit(() -> Mono.fromRunnable(() -> made.writeTo(response.getHeaders())));
            return made;
        });
    }

    /**
     * Sets headers in place of those with the same name. Without effect if the response has begun. Headers that the app
     * sets itself stay.
     *
     * @param decided the limit headers of a decision
     */
    public synchronized void set(Map<String, String> decided) {
        headers.putAll(decided);
    }

    private synchronized void writeTo(HttpHeaders response) {
        headers.forEach((name, value) -> {
            if (response.getFirst(name) == null) {
                response.set(name, value);
            }
        });
    }
}
