package io.github.tollgaters.spring.reactive;

import io.github.tollgaters.spring.web.RemoteAddress;
import io.github.tollgaters.spring.web.WebCaller;
import java.security.Principal;
import java.util.Map;
import java.util.Optional;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.web.filter.reactive.ServerWebExchangeContextFilter;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.util.context.ContextView;

/** The caller of a request of WebFlux. */
public final class ExchangeCaller implements WebCaller {
    private final ServerWebExchange exchange;
    private final Optional<String> user;
    private final boolean limitHeaders;

    /** Without a lookup, the user is null. */
    private ExchangeCaller(ServerWebExchange exchange, Optional<String> user, boolean limitHeaders) {
        this.exchange = exchange;
        this.user = user;
        this.limitHeaders = limitHeaders;
    }

    /**
     * Returns the caller of a request.
     *
     * @param exchange the request and its response
     * @param withUser whether to look up who is authenticated, which may be in a session far away
     * @param limitHeaders whether the response gets limit headers
     * @return the caller, once the user is known
     */
    public static Mono<WebCaller> of(ServerWebExchange exchange, boolean withUser, boolean limitHeaders) {
        if (!withUser) {
            return Mono.just(new ExchangeCaller(exchange, null, limitHeaders));
        }
        return exchange.getPrincipal()
                .map(Principal::getName)
                .filter(name -> !name.isEmpty())
                .map(Optional::of)
                .defaultIfEmpty(Optional.empty())
                .map(user -> new ExchangeCaller(exchange, user, limitHeaders));
    }

    /**
     * Returns the caller of the request whose exchange is in a subscriber's context. A
     * {@link ServerWebExchangeContextFilter} puts it there.
     *
     * @param context the context of a subscriber
     * @param withUser whether to look up who is authenticated
     * @param limitHeaders whether the response gets limit headers
     * @return the caller; empty outside of requests
     */
    public static Mono<WebCaller> of(ContextView context, boolean withUser, boolean limitHeaders) {
        return Mono.justOrEmpty(ServerWebExchangeContextFilter.getExchange(context))
                .flatMap(exchange -> of(exchange, withUser, limitHeaders));
    }

    @Override
    public ServerHttpRequest getRequest() {
        return exchange.getRequest();
    }

    @Override
    public Optional<String> getAddress() {
        return RemoteAddress.of(exchange.getRequest().getRemoteAddress());
    }

    @Override
    public Optional<String> getUser() {
        if (user == null) {
            throw new IllegalStateException("the user of the request was not looked up");
        }
        return user;
    }

    @Override
    public Optional<String> getHeader(String name) {
        return Optional.ofNullable(exchange.getRequest().getHeaders().getFirst(name));
    }

    @Override
    public void setLimitHeaders(Map<String, String> headers) {
        if (limitHeaders) {
            LimitHeaders.of(exchange).set(headers);
        }
    }
}
