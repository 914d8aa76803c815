package io.github.tollgaters.spring.gateway;

import io.github.tollgaters.spring.web.RemoteAddress;
import java.util.Optional;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.support.ipresolver.RemoteAddressResolver;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * A key resolver that returns the address of the client.
 *
 * <p>{@link TollgateRateLimiter} sends it as the attribute {@code ip}, so the service counts IPv6 by /64. The address
 * is that of the connection unless a {@link RemoteAddressResolver} says otherwise. Behind a proxy, give
 * {@code XForwardedRemoteAddressResolver.maxTrustedIndex(1)}: otherwise all clients share the proxy's address.
 */
public class ClientAddressKeyResolver implements KeyResolver {
    private static final String ADDRESS = ClientAddressKeyResolver.class.getName() + ".address";

    private final RemoteAddressResolver addresses;

    /** Creates a resolver that takes the address of the connection. */
    public ClientAddressKeyResolver() {
        this(new RemoteAddressResolver() {});
    }

    /**
     * Creates a resolver.
     *
     * @param addresses finds the address of the client
     */
    public ClientAddressKeyResolver(RemoteAddressResolver addresses) {
        this.addresses = addresses;
    }

    /** Returns the address; an error if there is none. */
    @Override
    public Mono<String> resolve(ServerWebExchange exchange) {
        return Mono.fromCallable(() -> {
            String ip = RemoteAddress.of(addresses.resolve(exchange)).orElseThrow(() ->
                    new IllegalStateException("the request has no client address; name another key-resolver"));
            exchange.getAttributes().put(ADDRESS, ip);
            return ip;
        });
    }

    /** Returns whether a key was resolved as an address. */
    static boolean resolved(Optional<ServerWebExchange> exchange, String key) {
        return exchange.map(request -> request.getAttribute(ADDRESS)).filter(key::equals).isPresent();
    }
}
