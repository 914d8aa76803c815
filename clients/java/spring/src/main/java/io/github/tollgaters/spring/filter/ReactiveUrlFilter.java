package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.core.RateLimitCall;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.model.RateLimitDecision;
import java.nio.charset.StandardCharsets;
import java.security.Principal;
import java.time.Duration;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Optional;
import java.util.Set;
import org.springframework.core.Ordered;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The limits of URLs in WebFlux. No thread waits for a decision. */
public final class ReactiveUrlFilter implements WebFilter, Ordered {

    private final UrlFilters filters;
    private final RateLimiter limiter;
    private final RateLimitMetricsRecorder recorder;
    private final int order;

    /**
     * Makes a filter.
     *
     * @param filters the limits
     * @param limiter decides
     * @param recorder records the decisions
     * @param order the place among the filters of the app
     */
    public ReactiveUrlFilter(UrlFilters filters, RateLimiter limiter, RateLimitMetricsRecorder recorder, int order) {
        this.filters = filters;
        this.limiter = limiter;
        this.recorder = recorder;
        this.order = order;
    }

    @Override
    public int getOrder() {
        return order;
    }

    @Override
    public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
        return exchange.getPrincipal()
                .map(Optional::<Principal>of)
                .defaultIfEmpty(Optional.empty())
                .flatMap(principal -> refusal(exchange, principal.orElse(null)))
                .map(refused -> write(refused, exchange.getResponse()))
                .defaultIfEmpty(Mono.defer(() -> chain.filter(exchange)))
                .flatMap(answer -> answer);
    }

    /** Asks the limits of a request; empty if all of them admit it. */
    private Mono<FilterAnswer> refusal(ServerWebExchange exchange, Principal principal) {
        FilterRequest request;
        try {
            request = new ExchangeFilterRequest(exchange.getRequest(), principal);
        } catch (IllegalArgumentException error) {
            return Mono.just(UrlFilter.unreadablePath());
        }
        return refusal(filters.matching(request).iterator(), new HashSet<>(), request, exchange.getResponse());
    }

    private Mono<FilterAnswer> refusal(
            Iterator<UrlFilter> rest, Set<String> counted, FilterRequest request, ServerHttpResponse response) {
        while (rest.hasNext()) {
            UrlFilter filter = rest.next();
            if (counted.contains(filter.name())) {
                continue;
            }
            Optional<FilterAnswer> refused = filter.refusal(request);
            if (refused.isPresent()) {
                return Mono.just(refused.get());
            }
            Optional<RateLimitCall> call = filter.call(request);
            if (call.isPresent()) {
                counted.add(filter.name());
                return decide(filter, call.get(), response)
                        .switchIfEmpty(Mono.defer(() -> refusal(rest, counted, request, response)));
            }
        }
        return Mono.empty();
    }

    private Mono<FilterAnswer> decide(UrlFilter filter, RateLimitCall call, ServerHttpResponse response) {
        long start = System.nanoTime();
        // A caller that leaves does not take back what is counted, so the call is not cancelled.
        return Mono.fromFuture(() -> limiter.evaluateAsync(call), true)
                // The rest of the app must not run on a thread of the client.
                .publishOn(Schedulers.parallel())
                .flatMap(decision -> {
                    recorder.recordDecision(filter.name(), filter.policy(), decision, since(start));
                    return refusal(filter, decision, response);
                })
                .onErrorResume(RateLimiterBackendException.class, error -> {
                    recorder.recordError(filter.name(), filter.policy(), since(start), error);
                    return Mono.just(UrlFilter.unavailable());
                });
    }

    private static Mono<FilterAnswer> refusal(
            UrlFilter filter, RateLimitDecision decision, ServerHttpResponse response) {
        if (!decision.isAllowed()) {
            return Mono.just(filter.denial(decision));
        }
        if (filter.headers() && !response.isCommitted()) {
            decision.getHeaders().forEach(response.getHeaders()::set);
        }
        return Mono.empty();
    }

    private static Duration since(long start) {
        return Duration.ofNanos(System.nanoTime() - start);
    }

    private static Mono<Void> write(FilterAnswer refused, ServerHttpResponse response) {
        if (response.isCommitted()) {
            return Mono.empty();
        }
        byte[] body = refused.body().getBytes(StandardCharsets.UTF_8);
        HttpHeaders headers = response.getHeaders();
        response.setStatusCode(HttpStatusCode.valueOf(refused.status()));
        refused.headers().forEach(headers::set);
        headers.set(HttpHeaders.CONTENT_TYPE, refused.contentType());
        headers.setContentLength(body.length);
        return response.writeWith(Mono.fromSupplier(() -> response.bufferFactory().wrap(body)));
    }
}
