package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.web.RemoteAddress;
import java.security.Principal;
import org.springframework.http.server.reactive.ServerHttpRequest;

/** A request of WebFlux. Its parameters are those of the query: the body belongs to the handler. */
final class ExchangeFilterRequest implements FilterRequest {

    private final ServerHttpRequest request;
    private final Principal principal;
    private final RequestPaths paths;

    /** Throws an IllegalArgumentException if the path is encoded wrongly. */
    ExchangeFilterRequest(ServerHttpRequest request) {
        this(request, null, RequestPaths.of(request.getPath().pathWithinApplication().value(), null));
    }

    private ExchangeFilterRequest(ServerHttpRequest request, Principal principal, RequestPaths paths) {
        this.request = request;
        this.principal = principal;
        this.paths = paths;
    }

    /** Returns the same request with a principal. */
    ExchangeFilterRequest of(Principal caller) {
        return new ExchangeFilterRequest(request, caller, paths);
    }

    @Override
    public String method() {
        return request.getMethod().name();
    }

    @Override
    public RequestPaths paths() {
        return paths;
    }

    @Override
    public Object request() {
        return request;
    }

    @Override
    public Principal principal() {
        return principal;
    }

    @Override
    public String address() {
        return RemoteAddress.of(request.getRemoteAddress()).orElse(null);
    }

    @Override
    public String header(String name) {
        return request.getHeaders().getFirst(name);
    }

    @Override
    public String param(String name) {
        String value = request.getQueryParams().getFirst(name);
        // As in servlets, a parameter without a value is an empty text.
        return value == null && request.getQueryParams().containsKey(name) ? "" : value;
    }
}
