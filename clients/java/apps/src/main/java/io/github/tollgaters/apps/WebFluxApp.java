package io.github.tollgaters.apps;

import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.spring.annotation.RateLimit;
import io.lettuce.core.RedisClient;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.embedded.netty.NettyReactiveWebServerFactory;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** The app on WebFlux with an annotation, and with bucket4j's starter as the usual limiter. */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import(WebFluxApp.Controller.class)
public class WebFluxApp {

    /** What bucket4j's starter needs for a limit of {@code /usual} in Redis. */
    private static final List<String> USUAL = List.of(
            "bucket4j.cache-to-use=redis-lettuce",
            "bucket4j.filters[0].filter-method=webflux",
            "bucket4j.filters[0].cache-name=usual",
            "bucket4j.filters[0].url=^/usual$",
            "bucket4j.filters[0].rate-limits[0].cache-key=getHeaders().getFirst('X-User')",
            "bucket4j.filters[0].rate-limits[0].bandwidths[0].capacity=1000000000",
            "bucket4j.filters[0].rate-limits[0].bandwidths[0].time=1",
            "bucket4j.filters[0].rate-limits[0].bandwidths[0].unit=hours");

    public static void main(String[] arguments) {
        List<String> properties = new ArrayList<>(AppSettings.NO_GATEWAY);
        properties.addAll(USUAL);
        AppSettings.run(WebFluxApp.class, WebApplicationType.REACTIVE, properties);
    }

    /** Tomcat, which the apps on servlets need, would be taken otherwise. */
    @Bean
    NettyReactiveWebServerFactory server() {
        return new NettyReactiveWebServerFactory();
    }

    @Bean(destroyMethod = "shutdown")
    RedisClient redisClient() {
        return RedisClient.create(AppSettings.REDIS.toString());
    }

    @RestController
    static class Controller {

        private final Tollgate tollgate;
        private final BareClient bare = new BareClient();

        Controller(Tollgate tollgate) {
            this.tollgate = tollgate;
        }

        @GetMapping({"/free", "/usual"})
        public Mono<Map<String, Boolean>> free() {
            return Mono.just(AppSettings.OK);
        }

        @GetMapping("/limited")
        @RateLimit(name = "search", key = "#{ {user: #user} }")
        public Mono<Map<String, Boolean>> limited(@RequestHeader("X-User") String user) {
            return Mono.just(AppSettings.OK);
        }

        @GetMapping("/bare")
        public Mono<Map<String, Boolean>> bare(@RequestHeader("X-User") String user) {
            return Mono.fromFuture(bare.check(user)).thenReturn(AppSettings.OK);
        }

        @GetMapping("/failures")
        public Map<FailureKind, Long> failures() {
            return tollgate.failures();
        }
    }
}
