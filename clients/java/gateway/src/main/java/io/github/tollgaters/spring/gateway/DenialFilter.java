package io.github.tollgaters.spring.gateway;

import io.github.tollgaters.spring.web.ProblemAnswer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.cloud.gateway.filter.GatewayFilterChain;
import org.springframework.cloud.gateway.filter.GlobalFilter;
import org.springframework.core.Ordered;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.http.server.reactive.ServerHttpResponseDecorator;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * A filter of all routes that completes the answer of a denied request.
 *
 * <p>A {@code RateLimiter} can only say no and add headers: the gateway then answers 429 without a body. With this
 * filter, the answer has the status that the policy chose and a problem as its body. A {@code status-code} in the
 * arguments of the route's filter takes precedence.
 */
public class DenialFilter implements GlobalFilter, Ordered {
    private static final String DENIAL = DenialFilter.class.getName() + ".denial";

    /** Creates the filter. */
    public DenialFilter() {}

    /** Returns the highest precedence: the filters of the routes come after. */
    @Override
    public int getOrder() {
        return Ordered.HIGHEST_PRECEDENCE;
    }

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, GatewayFilterChain chain) {
        return chain.filter(exchange.mutate().response(new DenialResponse(exchange)).build());
    }

    /** Notes how a request is denied. */
    static void mark(ServerWebExchange exchange, ProblemAnswer denial) {
        exchange.getAttributes().put(DENIAL, denial);
    }

    private static final class DenialResponse extends ServerHttpResponseDecorator {
        private final ServerWebExchange exchange;

        DenialResponse(ServerWebExchange exchange) {
            super(exchange.getResponse());
            this.exchange = exchange;
        }

        @Override
        public Mono<Void> setComplete() {
            if (!(exchange.getAttributes().remove(DENIAL) instanceof ProblemAnswer denial) || isCommitted()) {
                return super.setComplete();
            }
            HttpStatusCode ofRoute = getStatusCode();
            if (ofRoute == null || ofRoute.isSameCodeAs(HttpStatus.TOO_MANY_REQUESTS)) {
                setStatusCode(HttpStatusCode.valueOf(denial.status()));
            } else {
                Map<String, Object> body = new LinkedHashMap<>(denial.body());
                body.replace("status", ofRoute.value());
                denial = new ProblemAnswer(ofRoute.value(), denial.headers(), body);
            }
            byte[] json = denial.json().getBytes(StandardCharsets.UTF_8);
            getHeaders().set(HttpHeaders.CONTENT_TYPE, ProblemAnswer.TYPE);
            getHeaders().setContentLength(json.length);
            return writeWith(Mono.fromSupplier(() -> bufferFactory().wrap(json)));
        }
    }
}
