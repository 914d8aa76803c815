package io.github.tollgaters.spring.mvc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.Principal;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;

/** Scopes and expressions see the caller of a request in a real Tomcat. */
class CallerTest {

    private static final Servers SERVERS = new Servers();
    private static App app;

    @BeforeAll
    static void start() {
        String url = SERVERS.policies(
                        """
                        policies:
                          - { name: search, match: { action: search }, key: [ip], quotas: [1/1d] }
                          - { name: items, match: { action: items }, key: [key], quotas: [1/1d] }
                        """,
                        "--caller-quotas")
                .url();
        app = new App(Shop.class, url, "server.forward-headers-strategy=native");
    }

    @AfterAll
    static void stop() {
        app.close();
        SERVERS.close();
    }

    @Test
    void the_scope_ip_counts_each_address_by_itself() {
        assertEquals(List.of(200, 429), app.statuses(2, "/ip", "X-Forwarded-For", "203.0.113.1"));
        assertEquals(List.of(200, 429), app.statuses(2, "/ip", "X-Forwarded-For", "203.0.113.2"));
    }

    @Test
    void policies_see_the_address_by_default() {
        assertEquals(List.of(200, 429), app.statuses(2, "/search", "X-Forwarded-For", "203.0.113.1"));
        assertEquals(List.of(200, 429), app.statuses(2, "/search", "X-Forwarded-For", "203.0.113.2"));
    }

    /** What a proxy makes of the address that a caller writes, if it appends its own. */
    @Test
    void behind_a_proxy_callers_choose_their_address_only_with_the_strategy_framework() {
        String last = ", 203.0.113.99";
        assertEquals(200, app.status("/search", "X-Forwarded-For", "198.51.100.1" + last));
        assertEquals(429, app.status("/search", "X-Forwarded-For", "198.51.100.2" + last));
        String service = app.context().getEnvironment().getProperty("tollgate.url");
        try (App other = new App(Shop.class, service, "server.forward-headers-strategy=framework")) {
            assertEquals(200, other.status("/search", "X-Forwarded-For", "198.51.100.3" + last));
            assertEquals(200, other.status("/search", "X-Forwarded-For", "198.51.100.4" + last));
        }
    }

    @Test
    void a_missing_key_is_500_has_a_default_or_is_400_by_a_resolver() {
        assertEquals(List.of(500), app.statuses(1, "/tenant", "X-Other", "x"));
        assertEquals(List.of(200, 429), app.statuses(2, "/defaulted?id="));
        assertEquals(List.of(400), app.statuses(1, "/resolved"));
        assertEquals(List.of(200, 429), app.statuses(2, "/resolved", "X-Tenant", "a"));
    }

    @Test
    void addresses_of_one_network_of_ipv6_count_together() {
        assertEquals(List.of(200), app.statuses(1, "/search", "X-Forwarded-For", "2001:db8::1"));
        assertEquals(List.of(429), app.statuses(1, "/search", "X-Forwarded-For", "2001:db8::2"));
        assertEquals(List.of(200), app.statuses(1, "/search", "X-Forwarded-For", "2001:db8:0:1::1"));
    }

    @Test
    void the_scope_user_counts_each_principal_and_fails_without_one() {
        assertEquals(List.of(200, 429), app.statuses(2, "/user", "X-User", "alice"));
        assertEquals(List.of(200, 429), app.statuses(2, "/user", "X-User", "bob"));
        assertEquals(List.of(500), app.statuses(1, "/user"));
    }

    @Test
    void an_expression_sees_arguments_and_the_request() {
        assertEquals(List.of(200, 429), app.statuses(2, "/items/1"));
        assertEquals(List.of(200, 429), app.statuses(2, "/items/2"));
        assertEquals(List.of(200, 429), app.statuses(2, "/tenant", "X-Tenant", "acme"));
        assertEquals(List.of(200), app.statuses(1, "/tenant", "X-Tenant", "other"));
        assertEquals(List.of(500), app.statuses(1, "/tenant"));
    }

    @Test
    void limits_without_a_name_count_by_themselves_and_those_with_one_together() {
        assertEquals(List.of(200, 429), app.statuses(2, "/unnamed-a/1"));
        assertEquals(List.of(200, 429), app.statuses(2, "/unnamed-b/1"));
        assertEquals(List.of(200), app.statuses(1, "/named-a/1"));
        assertEquals(List.of(429), app.statuses(1, "/named-b/1"));
        assertEquals(List.of(200), app.statuses(1, "/named-b/2"));
    }

    @Test
    void the_trace_of_a_request_goes_with_its_check() throws Exception {
        String trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        HttpServer service = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        service.createContext("/v1/check", exchange -> {
            exchange.getRequestBody().readAllBytes();
            seen.add(String.valueOf(exchange.getRequestHeaders().getFirst("traceparent")));
            byte[] answer = "{\"allowed\":true}".getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("content-type", "application/json");
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        service.start();
        try (App traced = new App(Shop.class, "http://127.0.0.1:" + service.getAddress().getPort())) {
            assertEquals(200, traced.status("/search", "traceparent", trace));
            assertEquals(200, traced.status("/search"));
            assertEquals(List.of(trace, "null"), List.copyOf(seen));
        } finally {
            service.stop(0);
        }
    }

    @Test
    void a_cost_takes_as_many_units() {
        assertEquals(List.of(200), app.statuses(1, "/bulk?rows=6"));
        assertEquals(List.of(429), app.statuses(1, "/bulk?rows=5"));
        assertEquals(List.of(200), app.statuses(1, "/bulk?rows=4"));
        assertEquals(List.of(500), app.statuses(1, "/bulk?rows=-1"));
    }

    @Test
    void a_scope_of_callers_outside_of_a_request_fails() {
        Controller controller = app.context().getBean(Controller.class);
        IllegalStateException error = assertThrows(IllegalStateException.class, controller::ip);
        assertTrue(error.getMessage().contains("needs a web request"), error.getMessage());
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import(Controller.class)
    static class Shop {
        @Bean
        Tenants tenants() {
            return new Tenants();
        }

        @Bean
        Filter users() {
            return (request, response, chain) -> {
                HttpServletRequest http = (HttpServletRequest) request;
                String user = http.getHeader("X-User");
                chain.doFilter(user == null ? request : new Authenticated(http, () -> user), response);
            };
        }
    }

    private static final class Authenticated extends HttpServletRequestWrapper {
        private final Principal principal;

        Authenticated(HttpServletRequest request, Principal principal) {
            super(request);
            this.principal = principal;
        }

        @Override
        public Principal getUserPrincipal() {
            return principal;
        }
    }

    static final class Tenants implements RateLimitKeyResolver {
        @Override
        public String resolveKey(RateLimitContext context) {
            return context.getCaller()
                    .flatMap(caller -> caller.getHeader("X-Tenant"))
                    .orElseThrow(() -> new ResponseStatusException(HttpStatus.BAD_REQUEST, "X-Tenant is missing"));
        }
    }

    @RestController
    static class Controller {
        @RateLimit(scope = "IP", quotas = "1/1d")
        @GetMapping("/ip")
        public String ip() {
            return "ok";
        }

        @RateLimit(scope = "USER", quotas = "1/1d")
        @GetMapping("/user")
        public String user() {
            return "ok";
        }

        @RateLimit("search")
        @GetMapping("/search")
        public String search() {
            return "ok";
        }

        @RateLimit(name = "items", key = "#{#id}")
        @GetMapping("/items/{id}")
        public String item(@PathVariable("id") int id) {
            return "ok";
        }

        @RateLimit(quotas = "1/1d", key = "#{#request.getHeader('X-Tenant')}")
        @GetMapping("/tenant")
        public String tenant() {
            return "ok";
        }

        @RateLimit(quotas = "1/1d", key = "#{#id ?: 'none'}")
        @GetMapping("/defaulted")
        public String defaulted(String id) {
            return "ok";
        }

        @RateLimit(quotas = "1/1d", keyResolver = Tenants.class)
        @GetMapping("/resolved")
        public String resolved() {
            return "ok";
        }

        @RateLimit(quotas = "1/1d", key = "#{#id}")
        @GetMapping("/unnamed-a/{id}")
        public String unnamedA(@PathVariable("id") String id) {
            return "ok";
        }

        @RateLimit(quotas = "1/1d", key = "#{#id}")
        @GetMapping("/unnamed-b/{id}")
        public String unnamedB(@PathVariable("id") String id) {
            return "ok";
        }

        @RateLimit(name = "shared", quotas = "1/1d", key = "#{#id}")
        @GetMapping("/named-a/{id}")
        public String namedA(@PathVariable("id") String id) {
            return "ok";
        }

        @RateLimit(name = "shared", quotas = "1/1d", key = "#{#id}")
        @GetMapping("/named-b/{id}")
        public String namedB(@PathVariable("id") String id) {
            return "ok";
        }

        @RateLimit(quotas = "10/1d", cost = "#{#rows}")
        @GetMapping("/bulk")
        public String bulk(int rows) {
            return "ok";
        }
    }
}
