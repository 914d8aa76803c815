package io.github.tollgaters.spring.reactive;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import reactor.core.publisher.Mono;

/** Writes answers to requests of WebFlux that are not admitted. */
public final class Answers {
    private Answers() {}

    /**
     * Writes an answer.
     *
     * @param response the response, which has not begun
     * @param status the status
     * @param headers headers, in place of those with the same name
     * @param type the type of the body
     * @param text the body, sent as UTF-8
     * @return the end of writing
     */
    public static Mono<Void> write(
            ServerHttpResponse response, int status, Map<String, String> headers, String type, String text) {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        HttpHeaders all = response.getHeaders();
        response.setStatusCode(HttpStatusCode.valueOf(status));
        headers.forEach(all::set);
        all.set(HttpHeaders.CONTENT_TYPE, type);
        all.setContentLength(body.length);
        return response.writeWith(Mono.fromSupplier(() -> response.bufferFactory().wrap(body)));
    }
}
