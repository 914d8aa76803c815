package io.github.tollgaters.apps;

import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.Tollgate;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.embedded.netty.NettyReactiveWebServerFactory;
import org.springframework.cloud.gateway.filter.GatewayFilter;
import org.springframework.cloud.gateway.filter.factory.AbstractGatewayFilterFactory;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;
import reactor.netty.http.server.HttpServer;

/** Spring Cloud Gateway in front of a plain server, with its own limiter as the usual one. */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import({GatewayApp.Controller.class, GatewayApp.BareGatewayFilterFactory.class})
public class GatewayApp {

    private static final String OK = "{\"ok\": true}";

    public static void main(String[] arguments) {
        int upstream = HttpServer.create()
                .host("127.0.0.1")
                .port(0)
                .handle((request, response) -> response.sendString(Mono.just(OK)))
                .bindNow()
                .port();
        List<String> properties = new ArrayList<>(List.of("bucket4j.enabled=false"));
        addRoute(properties, upstream, "free", null);
        addRoute(properties, upstream, "bare", "Bare");
        addRoute(
                properties,
                upstream,
                "limited",
                "RequestRateLimiter",
                "rate-limiter=#{@tollgateRateLimiter}",
                "key-resolver=#{@userKeyResolver}",
                "tollgate.name=search",
                "tollgate.attribute=user");
        addRoute(
                properties,
                upstream,
                "usual",
                "RequestRateLimiter",
                "rate-limiter=#{@redisRateLimiter}",
                "key-resolver=#{@userKeyResolver}",
                "redis-rate-limiter.replenish-rate=1000000",
                "redis-rate-limiter.burst-capacity=1000000000");
        AppSettings.run(GatewayApp.class, WebApplicationType.REACTIVE, properties);
    }

    /** Adds a route of a path to the server, with a filter. */
    private static void addRoute(List<String> to, int upstream, String id, String filter, String... arguments) {
        long index = to.stream().filter(it -> it.contains("].id=")).count();
        String route = "spring.cloud.gateway.server.webflux.routes[" + index + "]";
        to.add(route + ".id=" + id);
        to.add(route + ".uri=http://127.0.0.1:" + upstream);
        to.add(route + ".predicates[0]=Path=/" + id);
        if (filter != null) {
            to.add(route + ".filters[0].name=" + filter);
        }
        for (String argument : arguments) {
            int end = argument.indexOf('=');
            to.add(route + ".filters[0].args[" + argument.substring(0, end) + "]" + argument.substring(end));
        }
    }

    /** Tomcat, which the apps on servlets need, would be taken otherwise. */
    @Bean
    NettyReactiveWebServerFactory server() {
        return new NettyReactiveWebServerFactory();
    }

    @Bean
    KeyResolver userKeyResolver() {
        return exchange -> Mono.justOrEmpty(exchange.getRequest().getHeaders().getFirst("X-User"));
    }

    /** A filter that makes a plain request to the service. */
    static class BareGatewayFilterFactory extends AbstractGatewayFilterFactory<Object> {

        private final BareClient bare = new BareClient();

        @Override
        public GatewayFilter apply(Object unused) {
            return (exchange, chain) -> {
                String user = exchange.getRequest().getHeaders().getFirst("X-User");
                return Mono.fromFuture(() -> bare.check(user)).then(chain.filter(exchange));
            };
        }
    }

    @RestController
    static class Controller {

        private final Tollgate tollgate;

        Controller(Tollgate tollgate) {
            this.tollgate = tollgate;
        }

        @GetMapping("/failures")
        public Map<FailureKind, Long> failures() {
            return tollgate.failures();
        }
    }
}
