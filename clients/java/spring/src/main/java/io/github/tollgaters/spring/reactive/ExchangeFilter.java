package io.github.tollgaters.spring.reactive;

import org.springframework.core.Ordered;
import org.springframework.web.filter.reactive.ServerWebExchangeContextFilter;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Mono;

/** Puts each request of WebFlux into the context of its subscriber, where limits of methods find it. */
public final class ExchangeFilter extends ServerWebExchangeContextFilter implements Ordered {

    private final int order;

    /**
     * Makes a filter.
     *
     * @param order the place among the filters of the app: after the one that knows the principal
     */
    public ExchangeFilter(int order) {
        this.order = order;
    }

    @Override
    public int getOrder() {
        return order;
    }

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        LimitHeaders.of(exchange);
        return super.filter(exchange, chain);
    }
}
