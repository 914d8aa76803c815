package io.github.tollgaters.spring.reactive;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.spring.web.WebCaller;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.http.HttpHeaders;
import org.springframework.mock.http.server.reactive.MockServerHttpRequest;
import org.springframework.mock.web.server.MockServerWebExchange;

class LimitHeadersTest {
    private final MockServerWebExchange exchange =
            MockServerWebExchange.from(MockServerHttpRequest.get("/search").build());
    private final HttpHeaders response = exchange.getResponse().getHeaders();

    private WebCaller caller(boolean limitHeaders) {
        return ExchangeCaller.of(exchange, true, limitHeaders).block();
    }

    @Test
    void decisionsOfOneRequestMeetInItsResponseOnlyWhenItBegins() {
        caller(true).setLimitHeaders(Map.of("ratelimit", "first", "ratelimit-policy", "first"));
        caller(true).setLimitHeaders(Map.of("ratelimit", "second"));
        assertThat(response.getFirst("ratelimit")).isNull();
        exchange.getResponse().setComplete().block();
        // This one comes too late.
        caller(true).setLimitHeaders(Map.of("ratelimit", "third"));
        HttpHeaders sent = exchange.getResponse().getHeaders();
        assertThat(sent.get("RateLimit")).containsExactly("second");
        assertThat(sent.get("RateLimit-Policy")).containsExactly("first");
    }

    @Test
    void headersOfTheAppStay() {
        caller(true).setLimitHeaders(Map.of("ratelimit", "of a limit"));
        response.set("RateLimit", "of the app");
        exchange.getResponse().setComplete().block();
        assertThat(exchange.getResponse().getHeaders().get("ratelimit")).containsExactly("of the app");
    }

    @Test
    void anAppWithoutLimitHeadersGetsNone() {
        caller(false).setLimitHeaders(Map.of("ratelimit", "first"));
        exchange.getResponse().setComplete().block();
        assertThat(exchange.getResponse().getHeaders().getFirst("ratelimit")).isNull();
    }
}
