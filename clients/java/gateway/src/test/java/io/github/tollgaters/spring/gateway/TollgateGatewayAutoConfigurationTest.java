package io.github.tollgaters.spring.gateway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.tollgaters.spring.config.InvalidPropertyFailureAnalyzer;
import io.github.tollgaters.spring.config.TollgateProperties;
import io.github.tollgaters.spring.core.RateLimiter;
import io.github.tollgaters.spring.metrics.NoOpRateLimitMetricsRecorder;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.cloud.gateway.filter.factory.RequestRateLimiterGatewayFilterFactory;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.filter.ratelimit.PrincipalNameKeyResolver;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.cloud.gateway.route.builder.RouteLocatorBuilder;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;
import org.springframework.data.redis.connection.ReactiveRedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.ReactiveStringRedisTemplate;
import reactor.core.publisher.Mono;

@ExtendWith(OutputCaptureExtension.class)
class TollgateGatewayAutoConfigurationTest {
    private final Servers servers = new Servers();
    private Servers.Service service;

    @BeforeEach
    void start() throws Exception {
        service = servers.service("--limit", "1000/1h", "--caller-quotas");
    }

    @AfterEach
    void stop() throws Exception {
        servers.close();
    }

    private static RequestRateLimiterGatewayFilterFactory filter(Gateway gateway) {
        return gateway.context.getBean(RequestRateLimiterGatewayFilterFactory.class);
    }

    @Test
    void isTheDefaultOfAGatewayWithoutAnotherRateLimiter() throws Exception {
        String yaml = """
                spring.cloud.gateway.server.webflux:
                  routes:
                  - id: search
                    uri: UPSTREAM
                    predicates: [Path=/search]
                    filters:
                    - name: RequestRateLimiter
                      args: { tollgate.quotas: 1/1h }
                """;
        try (Gateway gateway = new Gateway(service.url(), yaml, Plain.class)) {
            assertThat(filter(gateway).getDefaultRateLimiter()).isInstanceOf(TollgateRateLimiter.class);
            assertThat(filter(gateway).getDefaultKeyResolver()).isInstanceOf(ClientAddressKeyResolver.class);
            assertThat(gateway.get("/search").statusCode()).isEqualTo(200);
            assertThat(gateway.get("/search").statusCode()).isEqualTo(429);
        }
    }

    @Test
    void leavesTheDefaultsToTheGatewaysOwnRateLimiter() throws Exception {
        String yaml = """
                spring.cloud.gateway.server.webflux:
                  routes:
                  - id: redis
                    uri: UPSTREAM
                    predicates: [Path=/redis]
                    filters:
                    - name: RequestRateLimiter
                      args:
                        key-resolver: "#{@tollgateIpKeyResolver}"
                        redis-rate-limiter.replenishRate: 1
                        redis-rate-limiter.burstCapacity: 60
                        redis-rate-limiter.requestedTokens: 60
                  - id: tollgate
                    uri: UPSTREAM
                    predicates: [Path=/tollgate]
                    filters:
                    - name: RequestRateLimiter
                      args:
                        rate-limiter: "#{@tollgateRateLimiter}"
                        key-resolver: "#{@tollgateIpKeyResolver}"
                        tollgate.quotas: 1/1h
                """;
        String[] arguments = {
            "--redis=" + servers.redis(), "--spring.cloud.gateway.server.webflux.redis.enabled=true"
        };
        try (Gateway gateway = new Gateway(service.url(), yaml, WithRedis.class, arguments)) {
            assertThat(filter(gateway).getDefaultRateLimiter()).isInstanceOf(RedisRateLimiter.class);
            assertThat(filter(gateway).getDefaultKeyResolver()).isInstanceOf(PrincipalNameKeyResolver.class);
            for (String path : new String[] {"/redis", "/tollgate"}) {
                assertThat(gateway.get(path).statusCode()).isEqualTo(200);
                assertThat(gateway.get(path).statusCode()).isEqualTo(429);
            }
            assertThat(gateway.get("/redis").headers().firstValue("X-RateLimit-Burst-Capacity")).hasValue("60");
            assertThat(gateway.get("/redis").body()).isEmpty();
        }
    }

    @Test
    void leavesTheDefaultToAKeyResolverOfTheApp() throws Exception {
        try (Gateway gateway = new Gateway(service.url(), "{}", WithResolver.class)) {
            assertThat(filter(gateway).getDefaultKeyResolver())
                    .isSameAs(gateway.context.getBean("userKeyResolver"));
            assertThat(gateway.context.getBean("tollgateIpKeyResolver")).isInstanceOf(ClientAddressKeyResolver.class);
        }
    }

    @Test
    void leavesBeansOfTheAppAlone() throws Exception {
        try (Gateway gateway = new Gateway(service.url(), "{}", WithOwnBeans.class)) {
            assertThat(gateway.context.getBeanNamesForType(TollgateRateLimiter.class)).containsExactly("ownLimiter");
            assertThat(gateway.context.getBeanNamesForType(DenialFilter.class)).containsExactly("ownFilter");
        }
    }

    @Test
    void isAbsentFromAGatewayThatIsOff() throws Exception {
        try (Gateway gateway = new Gateway(
                service.url(), "{}", Plain.class, "--spring.cloud.gateway.server.webflux.enabled=false")) {
            assertThat(gateway.context.getBeanNamesForType(TollgateRateLimiter.class)).isEmpty();
        }
    }

    @Test
    void admitsEverythingIfLimitsAreOff() throws Exception {
        String yaml = """
                spring.cloud.gateway.server.webflux:
                  routes:
                  - id: search
                    uri: UPSTREAM
                    predicates: [Path=/search]
                    filters:
                    - name: RequestRateLimiter
                      args: { rate-limiter: "#{@tollgateRateLimiter}", tollgate.quotas: 1/1h }
                """;
        for (String off : new String[] {"--tollgate.enabled=false", "--tollgate.policies.search.enabled=false"}) {
            try (Gateway gateway = new Gateway(service.url(), yaml, Plain.class, off)) {
                assertThat(gateway.get("/search").statusCode()).isEqualTo(200);
                assertThat(gateway.get("/search").statusCode()).isEqualTo(200);
            }
        }
    }

    @Test
    void refusesArgumentsThatAreUnknownOrWrong() throws Exception {
        String yaml = """
                spring.cloud.gateway.server.webflux:
                  routes:
                  - id: ROUTE
                    uri: UPSTREAM
                    predicates: [Path=/search]
                    filters:
                    - name: RequestRateLimiter
                      args: { ARGUMENTS }
                """;
        for (String argument : new String[] {
            "tollgate.nmae: search",
            "tollgate.cost: 0",
            "tollgate.cost: 4294967296",
            "tollgate.quotas: ''",
            "tollgate.quotas: [1/1h,2/2h,3/3h,4/4h,5/5h,6/6h,7/7h,8/8h,9/9h]",
            "tollgate.attribute: action",
            "tollgate.name: my search, tollgate.quotas: 1/1h"
        }) {
            String wrong = yaml.replace("ROUTE", "search").replace("ARGUMENTS", argument);
            assertThatThrownBy(() -> new Gateway(service.url(), wrong, Plain.class))
                    .as(argument)
                    .hasStackTraceContaining(argument.substring(0, argument.indexOf(':')));
        }
        String byId = yaml.replace("ROUTE", "search/v1").replace("ARGUMENTS", "tollgate.quotas: 1/1h");
        assertThatThrownBy(() -> new Gateway(service.url(), byId, Plain.class))
                .hasStackTraceContaining("route search/v1: tollgate.quotas need a tollgate.name")
                .satisfies(error -> assertThat(new InvalidPropertyFailureAnalyzer().analyze(error)).isNotNull());
        assertThatThrownBy(() -> new Gateway(service.url(), "{}", WrongRoute.class))
                .hasStackTraceContaining("route search/v1: tollgate.quotas need a tollgate.name");
    }

    @Test
    void saysAtTheStartThatTheServiceRefusesALimit(CapturedOutput output) throws Exception {
        String yaml = """
                spring.cloud.gateway.server.webflux:
                  routes:
                  - id: search
                    uri: UPSTREAM
                    predicates: [Path=/search]
                    filters:
                    - name: RequestRateLimiter
                      args: { tollgate.quotas: 3/1x }
                """;
        try (Gateway gateway = new Gateway(service.url(), yaml, Plain.class)) {
            assertThat(output.getAll())
                    .contains("tollgate: asks " + service.url() + "; limits ")
                    .contains("routes of the gateway");
            long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            String line = "route search: the limit [3/1x] is without effect: all calls are admitted. The service says: ";
            while (!output.getAll().contains(line) && System.nanoTime() < end) {
                Thread.sleep(20);
            }
            assertThat(output.getAll()).contains(line);
            assertThat(gateway.get("/search").statusCode()).isEqualTo(200);
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class Plain {}

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class WrongRoute {
        @Bean
        RouteLocator routes(RouteLocatorBuilder builder) {
            return builder.routes()
                    .route("search/v1", route -> route.path("/search")
                            .filters(filters -> filters.requestRateLimiter()
                                    .rateLimiter(TollgateRateLimiter.class, limit -> limit.setQuotas(List.of("1/1h")))
                                    .and())
                            .uri("no://op"))
                    .build();
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class WithResolver {
        @Bean
        KeyResolver userKeyResolver() {
            return exchange -> Mono.just("alice");
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class WithRedis {
        @Bean
        LettuceConnectionFactory redisConnectionFactory(Environment environment) {
            URI redis = URI.create(environment.getRequiredProperty("redis"));
            return new LettuceConnectionFactory(redis.getHost(), redis.getPort());
        }

        @Bean
        ReactiveStringRedisTemplate reactiveStringRedisTemplate(ReactiveRedisConnectionFactory redis) {
            return new ReactiveStringRedisTemplate(redis);
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class WithOwnBeans {
        @Bean
        TollgateRateLimiter ownLimiter(
                RateLimiter limiter,
                TollgateProperties properties,
                ConfigurationService configurationService) {
            return new TollgateRateLimiter(
                    limiter, properties, new NoOpRateLimitMetricsRecorder(), configurationService);
        }

        @Bean
        DenialFilter ownFilter() {
            return new DenialFilter();
        }
    }
}
