package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.core.RateLimitCall;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import io.github.tollgaters.spring.metrics.RateLimitMetricsRecorder;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.reactive.Answers;
import io.github.tollgaters.spring.reactive.LimitHeaders;
import java.time.Duration;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.springframework.core.Ordered;
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
        if (filters.isEmpty()) {
            return chain.filter(exchange);
        }
        ExchangeFilterRequest request;
        try {
            request = new ExchangeFilterRequest(exchange.getRequest());
        } catch (IllegalArgumentException error) {
            return write(UrlFilter.unreadablePath(), exchange.getResponse());
        }
        List<UrlFilter> matching = filters.matching(request);
        if (matching.isEmpty()) {
            return chain.filter(exchange);
        }
        return known(request, matching, exchange)
                .flatMap(known -> refusal(matching.iterator(), new HashSet<>(), known, exchange))
                .map(refused -> write(refused, exchange.getResponse()))
                .defaultIfEmpty(Mono.defer(() -> chain.filter(exchange)))
                .flatMap(answer -> answer);
    }

    /** Looks up the principal, which may be in a session far away, if a limit needs it. */
    private static Mono<FilterRequest> known(
            ExchangeFilterRequest request, List<UrlFilter> matching, ServerWebExchange exchange) {
        if (matching.stream().noneMatch(UrlFilter::mayReadPrincipal)) {
            return Mono.just(request);
        }
        return exchange.getPrincipal().<FilterRequest>map(request::of).defaultIfEmpty(request);
    }

    /** Asks the limits of a request; empty if all of them admit it. */
    private Mono<FilterAnswer> refusal(
            Iterator<UrlFilter> rest, Set<String> counted, FilterRequest request, ServerWebExchange exchange) {
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
                return decide(filter, call.get(), exchange)
                        .switchIfEmpty(Mono.defer(() -> refusal(rest, counted, request, exchange)));
            }
        }
        return Mono.empty();
    }

    private Mono<FilterAnswer> decide(UrlFilter filter, RateLimitCall call, ServerWebExchange exchange) {
        long start = System.nanoTime();
        // A caller that leaves does not take back what is counted, so the call is not cancelled.
        return Mono.fromFuture(() -> limiter.evaluateAsync(call), true)
                // The rest of the app must not run on a thread of the client.
                .publishOn(Schedulers.parallel())
                .flatMap(decision -> {
                    recorder.recordDecision(filter.name(), filter.policy(), decision, since(start));
                    return refusal(filter, decision, exchange);
                })
                .onErrorResume(RateLimiterBackendException.class, error -> {
                    recorder.recordError(filter.name(), filter.policy(), since(start), error);
                    return Mono.just(UrlFilter.unavailable());
                });
    }

    private static Mono<FilterAnswer> refusal(
            UrlFilter filter, RateLimitDecision decision, ServerWebExchange exchange) {
        if (!decision.isAllowed()) {
            return Mono.just(filter.denial(decision));
        }
        if (filter.headers()) {
            LimitHeaders.of(exchange).set(decision.getHeaders());
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
        return Answers.write(response, refused.status(), refused.headers(), refused.contentType(), refused.body());
    }
}
