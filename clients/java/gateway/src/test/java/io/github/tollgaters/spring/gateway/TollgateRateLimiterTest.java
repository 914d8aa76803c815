package io.github.tollgaters.spring.gateway;

import static org.assertj.core.api.Assertions.assertThat;

import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.cloud.gateway.route.builder.RouteLocatorBuilder;
import org.springframework.cloud.gateway.support.ipresolver.XForwardedRemoteAddressResolver;
import org.springframework.context.annotation.Bean;
import reactor.core.publisher.Mono;

class TollgateRateLimiterTest {
    private static final String ROUTE = """
            spring.cloud.gateway.server.webflux:
              routes:
              - id: search
                uri: UPSTREAM
                predicates: [Path=/search/**]
                filters:
                - name: RequestRateLimiter
                  args:
                    rate-limiter: "#{@tollgateRateLimiter}"
                    key-resolver: "#{@userKeyResolver}"
            """;
    private static final String POLICIES = """
            policies:
            - { name: search, match: { action: search }, key: [key], quotas: [3/1h], headers: [x-ratelimit] }
            """;

    private final Servers servers = new Servers();
    private final List<Gateway> gateways = new ArrayList<>();

    @AfterEach
    void stop() throws Exception {
        for (Gateway gateway : gateways) {
            gateway.close();
        }
        servers.close();
    }

    /** Adds arguments to the filter of the route. */
    private static String args(String... arguments) {
        return "        " + String.join("\n        ", arguments) + "\n";
    }

    private Gateway gateway(Servers.Service service, String yaml, String... arguments) throws Exception {
        Gateway gateway = new Gateway(service.url(), yaml, App.class, arguments);
        gateways.add(gateway);
        return gateway;
    }

    @Test
    void countsByTheIdOfTheRouteAndTheKeyOfTheRequest() throws Exception {
        Gateway gateway = gateway(servers.policies(POLICIES), ROUTE);
        for (int remaining = 2; remaining >= 0; remaining--) {
            HttpResponse<String> admitted = gateway.get("/search/a", "X-User", "alice");
            assertThat(admitted.statusCode()).isEqualTo(200);
            assertThat(admitted.body()).isEqualTo("/search/a");
            assertThat(admitted.headers().firstValue("X-RateLimit-Limit")).hasValue("3");
            assertThat(admitted.headers().firstValue("X-RateLimit-Remaining")).hasValue(Integer.toString(remaining));
        }
        HttpResponse<String> denied = gateway.get("/search/b", "X-User", "alice");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().allValues("Retry-After")).hasSize(1);
        assertThat(Integer.parseInt(denied.headers().firstValue("Retry-After").orElseThrow()))
                .isBetween(1, 3600);
        assertThat(denied.headers().allValues("X-RateLimit-Remaining")).containsExactly("0");
        assertThat(denied.headers().firstValue("Cache-Control")).hasValue("no-store");
        assertThat(denied.headers().firstValue("Content-Type")).hasValue("application/problem+json");
        assertThat(denied.body())
                .contains("\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\"")
                .contains("\"title\":\"Quota exceeded\"")
                .contains("\"status\":429")
                .contains("\"violated-policies\":[\"search\"]")
                .containsPattern("\"detail\":\"retry in \\d+ s\"")
                .doesNotContain("alice");
        assertThat(gateway.get("/search/a", "X-User", "bob").statusCode()).isEqualTo(200);
        assertThat(gateway.passed).hasValue(4);
    }

    @Test
    void readsNameCostAndAttributeFromTheArguments() throws Exception {
        Gateway gateway = gateway(servers.policies("""
                policies:
                - { name: find, match: { action: find }, key: [user], quotas: [5/1h], headers: [x-ratelimit] }
                """), ROUTE + args("tollgate.name: find", "tollgate.cost: 2", "tollgate.attribute: user"));
        assertThat(gateway.get("/search", "X-User", "alice").headers().firstValue("X-RateLimit-Remaining"))
                .hasValue("3");
        assertThat(gateway.get("/search", "X-User", "alice").statusCode()).isEqualTo(200);
        assertThat(gateway.get("/search", "X-User", "alice").statusCode()).isEqualTo(429);
    }

    @Test
    void sendsLimitsWithTheCall() throws Exception {
        Servers.Service service = servers.service("--limit", "1000/1h", "--caller-quotas");
        Gateway list = gateway(service, ROUTE + args("tollgate.quotas: [100/1h, 2/1h@first_hit]"));
        Gateway text = gateway(service, ROUTE + args("tollgate.quotas: 100/1h, 2/1h@first_hit"));
        assertThat(list.get("/search", "X-User", "alice").statusCode()).isEqualTo(200);
        assertThat(text.get("/search", "X-User", "alice").statusCode()).isEqualTo(200);
        assertThat(text.get("/search", "X-User", "alice").statusCode()).isEqualTo(429);
        assertThat(list.get("/search", "X-User", "alice").body()).contains("\"search:caller\"");
    }

    @Test
    void takesTheConfigurationOfRoutesInJava() throws Exception {
        Gateway gateway = new Gateway(
                servers.service("--limit", "1000/1h", "--caller-quotas").url(), "{}", Routes.class);
        gateways.add(gateway);
        assertThat(gateway.get("/java", "X-User", "alice").statusCode()).isEqualTo(200);
        assertThat(gateway.get("/java", "X-User", "alice").statusCode()).isEqualTo(429);
    }

    @Test
    void answersWithTheStatusOfThePolicyUnlessTheRouteNamesOne() throws Exception {
        Servers.Service service = servers.policies(POLICIES.replace("quotas: [3/1h]", "quotas: [1/1h], deny_status: 503"));
        Gateway policy = gateway(service, ROUTE);
        Gateway route = gateway(service, ROUTE + args("status-code: PAYMENT_REQUIRED"));
        assertThat(policy.get("/search", "X-User", "alice").statusCode()).isEqualTo(200);
        HttpResponse<String> denied = policy.get("/search", "X-User", "alice");
        assertThat(denied.statusCode()).isEqualTo(503);
        assertThat(denied.body()).contains("\"status\":503").contains("Quota exceeded");
        HttpResponse<String> other = route.get("/search", "X-User", "alice");
        assertThat(other.statusCode()).isEqualTo(402);
        assertThat(other.body()).contains("\"status\":402");
    }

    @Test
    void aRequestWithoutAKeyIsForbiddenUnlessTheGatewayAllowsIt() throws Exception {
        Servers.Service service = servers.policies(POLICIES);
        assertThat(gateway(service, ROUTE).get("/search").statusCode()).isEqualTo(403);
        assertThat(gateway(service, ROUTE + args("empty-key-status: UNAUTHORIZED"))
                        .get("/search")
                        .statusCode())
                .isEqualTo(401);
        assertThat(gateway(service, ROUTE + args("deny-empty-key: false")).get("/search").statusCode())
                .isEqualTo(200);
    }

    @Test
    void anEmptyKeyIsAnErrorOfTheApp() throws Exception {
        Gateway gateway = gateway(
                servers.policies(POLICIES), ROUTE.replace("userKeyResolver", "blankKeyResolver"));
        assertThat(gateway.get("/search").statusCode()).isEqualTo(500);
        assertThat(gateway.passed).hasValue(0);
    }

    @Test
    void countsAddressesOfIpv6ByTheirNetworkAlsoBehindAProxy() throws Exception {
        Gateway gateway = gateway(
                servers.policies("""
                        policies:
                        - { name: search, match: { action: search }, key: [ip], quotas: [1/1h] }
                        """),
                ROUTE.replace("userKeyResolver", "proxiedKeyResolver"));
        // The first address is what the client wrote, the last one what the proxy added.
        assertThat(gateway.get("/search", "X-Forwarded-For", "9.9.9.9, 2001:db8:1:2::1").statusCode()).isEqualTo(200);
        assertThat(gateway.get("/search", "X-Forwarded-For", "8.8.8.8, 2001:db8:1:2::9").statusCode()).isEqualTo(429);
        assertThat(gateway.get("/search", "X-Forwarded-For", "9.9.9.9, 2001:db8:1:3::1").statusCode()).isEqualTo(200);
        assertThat(gateway.get("/search").statusCode()).isEqualTo(200);
        assertThat(gateway.get("/search").statusCode()).isEqualTo(429);
    }

    @Test
    void aRouteWithARandomIdNeedsAName() throws Exception {
        Servers.Service service = servers.policies(POLICIES);
        Gateway unnamed = new Gateway(service.url(), "{}", RandomRoute.class);
        gateways.add(unnamed);
        assertThat(unnamed.get("/random", "X-User", "alice").statusCode()).isEqualTo(500);
        assertThat(unnamed.passed).hasValue(0);
    }

    @Test
    void withoutTheServiceRequestsAreAdmittedOrAnswered503() throws Exception {
        Servers.Service service = servers.policies(POLICIES);
        Gateway open = gateway(service, ROUTE);
        Gateway closed = gateway(service, ROUTE, "--tollgate.closed-names=search");
        service.process().destroyForcibly().waitFor();
        assertThat(open.get("/search", "X-User", "alice").statusCode()).isEqualTo(200);
        HttpResponse<String> refused = closed.get("/search", "X-User", "alice");
        assertThat(refused.statusCode()).isEqualTo(503);
        assertThat(refused.headers().firstValue("Retry-After")).isEmpty();
        assertThat(refused.headers().firstValue("Cache-Control")).hasValue("no-store");
        assertThat(refused.body()).isEqualTo("{\"title\":\"Rate limiter unavailable\",\"status\":503}");
    }

    @Test
    void aServiceThatStopsAnsweringBlocksNoThread() throws Exception {
        Servers.Service service = servers.policies(POLICIES);
        String free = """
              - id: free
                uri: UPSTREAM
                predicates: [Path=/free]
            """;
        Gateway gateway = gateway(service, ROUTE + free, "--tollgate.timeout=4s");
        assertThat(gateway.get("/search", "X-User", "warm").statusCode()).isEqualTo(200);
        service.signal("STOP");
        long start = System.nanoTime();
        List<CompletableFuture<Integer>> waiting = new ArrayList<>();
        for (int request = 0; request < 64; request++) {
            waiting.add(gateway.status("/search", "X-User", "alice"));
        }
        assertThat(gateway.get("/free").statusCode()).isEqualTo(200);
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(3));
        assertThat(waiting).allSatisfy(answer -> assertThat(answer.join()).isEqualTo(200));
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(10));
        service.signal("CONT");
    }

    @Test
    void aLongKeyIsCountedAndNotAdmittedForItsLength() throws Exception {
        Gateway gateway = gateway(servers.policies(POLICIES.replace("3/1h", "1/1h")), ROUTE);
        String longest = "l".repeat(2_000);
        assertThat(gateway.get("/search", "X-User", longest).statusCode()).isEqualTo(200);
        assertThat(gateway.get("/search", "X-User", longest).statusCode()).isEqualTo(429);
        assertThat(gateway.get("/search", "X-User", longest + "l").statusCode()).isEqualTo(200);
    }

    @Test
    void admitsExactlyTwentyOfFiftyOverTwoGateways() throws Exception {
        String redis = servers.redis();
        String[] arguments = {"--store", redis, "--store-timeout", "10s"};
        String policies = POLICIES.replace("3/1h", "20/1h");
        Gateway one = gateway(servers.policies(policies, arguments), ROUTE);
        Gateway two = gateway(servers.policies(policies, arguments), ROUTE);
        List<CompletableFuture<Integer>> answers = new ArrayList<>();
        for (int request = 0; request < 50; request++) {
            answers.add((request % 2 == 0 ? one : two).status("/search", "X-User", "alice"));
        }
        assertThat(answers.stream().map(CompletableFuture::join).filter(status -> status == 200))
                .hasSize(20);
        assertThat(one.passed.get() + two.passed.get()).isEqualTo(20);
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class App {
        @Bean
        KeyResolver userKeyResolver() {
            return exchange -> Mono.justOrEmpty(exchange.getRequest().getHeaders().getFirst("X-User"));
        }

        @Bean(autowireCandidate = false)
        KeyResolver blankKeyResolver() {
            return exchange -> Mono.just("");
        }

        @Bean(autowireCandidate = false)
        KeyResolver proxiedKeyResolver() {
            return new ClientAddressKeyResolver(XForwardedRemoteAddressResolver.maxTrustedIndex(1));
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class RandomRoute extends App {
        @Bean
        RouteLocator routes(RouteLocatorBuilder builder) {
            return builder.routes()
                    .route(route -> route.path("/random")
                            .filters(filters -> filters.requestRateLimiter().and())
                            .uri("no://op"))
                    .build();
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class Routes extends App {
        @Bean
        RouteLocator routes(RouteLocatorBuilder builder) {
            return builder.routes()
                    .route("java", route -> route.path("/java")
                            .filters(filters -> filters.requestRateLimiter()
                                    .rateLimiter(TollgateRateLimiter.class, limit -> limit.setQuotas(List.of("1/1h")))
                                    .and())
                            .uri("no://op"))
                    .build();
        }
    }
}
