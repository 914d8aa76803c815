package io.github.tollgaters.spring.mvc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.json.JsonParser;
import org.springframework.boot.json.JsonParserFactory;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.http.ResponseEntity;
import org.springframework.stereotype.Service;
import org.springframework.web.bind.annotation.ControllerAdvice;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.bind.annotation.RestControllerAdvice;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.RouterFunctions;
import org.springframework.web.servlet.function.ServerResponse;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;
import reactor.core.publisher.Mono;

/** How web requests are answered: denials, outages, and the headers of both. */
class AnswerTest {

    private static final JsonParser JSON = JsonParserFactory.getJsonParser();
    private static final Servers SERVERS = new Servers();
    private static String service;
    private static App app;

    @BeforeAll
    static void start() {
        service = SERVERS.policies(
                        """
                        policies:
                          - { name: search, match: { action: search }, key: [ip], quotas: [1/1d], headers: x-ratelimit }
                          - name: hidden
                            match: { action: hidden }
                            key: [ip]
                            quotas: [1/1d]
                            deny_status: 404
                        """,
                        "--caller-quotas")
                .url();
        app = new App(Shop.class, service);
    }

    @AfterAll
    static void stop() {
        app.close();
        SERVERS.close();
    }

    @Test
    void a_denial_is_a_problem_with_the_time_to_wait() {
        HttpResponse<String> admitted = app.get("/search");
        assertEquals(200, admitted.statusCode());
        assertEquals(List.of("0"), admitted.headers().allValues("X-RateLimit-Remaining"));
        assertTrue(admitted.headers().firstValue("Retry-After").isEmpty());

        HttpResponse<String> denied = app.get("/search");
        assertEquals(429, denied.statusCode());
        assertEquals("application/problem+json", denied.headers().firstValue("Content-Type").orElseThrow());
        assertEquals(List.of("no-store"), denied.headers().allValues("Cache-Control"));
        assertEquals(List.of("1"), denied.headers().allValues("X-RateLimit-Limit"));
        assertEquals(List.of("0"), denied.headers().allValues("X-RateLimit-Remaining"));
        List<String> retryAfter = denied.headers().allValues("Retry-After");
        assertEquals(1, retryAfter.size());
        Map<String, Object> problem = JSON.parseMap(denied.body());
        assertEquals("https://iana.org/assignments/http-problem-types#quota-exceeded", problem.get("type"));
        assertEquals("Quota exceeded", problem.get("title"));
        assertEquals(429, problem.get("status"));
        assertEquals("retry in " + retryAfter.get(0) + " s", problem.get("detail"));
        assertEquals(List.of("search"), problem.get("violated-policies"));
    }

    @Test
    void the_status_of_the_policy_is_that_of_the_answer() {
        assertEquals(200, app.status("/hidden"));
        HttpResponse<String> denied = app.get("/hidden");
        assertEquals(404, denied.statusCode());
        assertEquals(404, JSON.parseMap(denied.body()).get("status"));
    }

    @Test
    void a_browser_gets_the_problem_too() {
        app.status("/browser");
        HttpResponse<String> denied = app.get("/browser", "Accept", "text/html");
        assertEquals(429, denied.statusCode());
        assertEquals("application/problem+json", denied.headers().firstValue("Content-Type").orElseThrow());
    }

    @Test
    void two_limits_of_one_request_send_one_value_of_each_header() {
        HttpResponse<String> admitted = app.get("/twice");
        assertEquals(200, admitted.statusCode());
        HttpResponse<String> denied = app.get("/twice");
        assertEquals(429, denied.statusCode());
        assertEquals(1, denied.headers().allValues("RateLimit").size(), () -> denied.headers().toString());
        assertTrue(denied.headers().firstValue("RateLimit").orElseThrow().contains("inner"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"/future", "/callable", "/stream", "/mono"})
    void an_asynchronous_result_is_checked_before_its_method(String path) {
        int before = Later.CALLS.get();
        assertEquals(200, app.status(path));
        HttpResponse<String> denied = app.get(path);
        assertEquals(429, denied.statusCode());
        assertEquals("Quota exceeded", JSON.parseMap(denied.body()).get("title"));
        assertEquals(before + 1, Later.CALLS.get());
    }

    @Test
    void a_function_of_a_router_gets_the_same_answer() {
        assertEquals(200, app.status("/function"));
        HttpResponse<String> denied = app.get("/function");
        assertEquals(429, denied.statusCode());
        assertEquals("application/problem+json", denied.headers().firstValue("Content-Type").orElseThrow());
        assertEquals(List.of("no-store"), denied.headers().allValues("Cache-Control"));
        assertEquals("Quota exceeded", JSON.parseMap(denied.body()).get("title"));
    }

    @Test
    void a_fallback_answers_instead_of_a_denial() {
        assertEquals("fresh 1", app.get("/fallback?id=1").body());
        assertEquals("cached 1", app.get("/fallback?id=1").body());
        assertEquals("fresh", app.get("/fallback-with-error").body());
        assertEquals("denied: fallback-with-error", app.get("/fallback-with-error").body());
    }

    @Test
    void the_body_of_the_starter_has_no_key() {
        try (App starter = new App(Shop.class, service, "tollgate.problem=starter")) {
            starter.status("/starter");
            HttpResponse<String> denied = starter.get("/starter");
            assertEquals(429, denied.statusCode());
            Map<String, Object> problem = JSON.parseMap(denied.body());
            assertEquals("Rate limit exceeded", problem.get("title"));
            assertEquals("starter", problem.get("name"));
            assertEquals(1, problem.get("limit"));
            assertEquals(86_400, problem.get("windowSeconds"));
            assertTrue((Integer) problem.get("retryAfterSeconds") > 0);
            assertTrue(problem.get("timestamp") instanceof String && problem.get("detail") instanceof String);
            assertFalse(denied.body().contains("secret-key"), denied.body());
        }
    }

    @Test
    void without_headers_only_the_time_to_wait_is_sent() {
        try (App quiet = new App(Shop.class, service, "tollgate.include-http-headers=false")) {
            HttpResponse<String> admitted = quiet.get("/quiet");
            HttpResponse<String> denied = quiet.get("/quiet");
            assertEquals(429, denied.statusCode());
            assertTrue(admitted.headers().firstValue("RateLimit").isEmpty());
            assertTrue(denied.headers().firstValue("RateLimit").isEmpty());
            assertTrue(denied.headers().firstValue("Retry-After").isPresent());
        }
    }

    @Test
    void without_a_service_calls_are_admitted_or_answered_503() {
        Servers.Service other = SERVERS.service("--limit", "5/1d", "--caller-quotas");
        try (App open = new App(Shop.class, other.url(), "tollgate.closed-names=login");
                App closed = new App(Shop.class, other.url(), "tollgate.fail-open=false")) {
            other.kill();
            assertEquals(200, open.status("/callable"));
            assertEquals(503, open.status("/login"));
            HttpResponse<String> refused = closed.get("/callable");
            assertEquals(503, refused.statusCode());
            assertEquals("Rate limiter unavailable", JSON.parseMap(refused.body()).get("title"));
            assertTrue(refused.headers().firstValue("Retry-After").isEmpty());
            assertEquals(List.of("no-store"), refused.headers().allValues("Cache-Control"));
            assertEquals(503, closed.status("/function"));
            assertEquals("cached 1", closed.get("/fallback?id=1").body());
        }
    }

    @Test
    void a_service_that_stops_costs_a_request_no_more_than_the_timeout() throws Exception {
        Servers.Service other = SERVERS.service("--limit", "5/1d", "--caller-quotas");
        try (App open = new App(Shop.class, other.url(), "tollgate.timeout=250ms")) {
            open.status("/quiet");
            other.signal("STOP");
            long start = System.nanoTime();
            assertEquals(List.of(200, 200, 200), open.statuses(3, "/quiet"));
            long elapsed = (System.nanoTime() - start) / 1_000_000;
            assertTrue(elapsed >= 700 && elapsed < 5_000, "three requests took " + elapsed + " ms");
            other.signal("CONT");
            assertEquals(List.of(429), open.statuses(1, "/quiet"));
        }
    }

    @Test
    void without_a_store_limits_of_the_app_are_admitted_or_answered_503_as_the_app_says() throws Exception {
        String url = SERVERS.service("--limit", "5/1d", "--caller-quotas", "--store", SERVERS.redis()).url();
        try (App open = new App(Shop.class, url);
                App closed = new App(Shop.class, url, "tollgate.fail-open=false")) {
            assertEquals(List.of(200, 429), open.statuses(2, "/general"));
            SERVERS.killRedis();
            assertEquals(200, open.status("/quiet"));
            assertEquals(503, closed.status("/quiet"));
        }
    }

    @Test
    void an_advice_of_the_app_goes_first_if_it_names_the_exception() {
        try (App own = new App(WithOwnAdvice.class, service)) {
            own.status("/own");
            assertEquals("mine: 429", own.get("/own").body());
        }
    }

    @Test
    void an_advice_for_all_exceptions_does_not_hide_denials() {
        try (App general = new App(WithGeneralAdvice.class, service)) {
            general.status("/general");
            assertEquals(429, general.status("/general"));
            assertEquals("general", general.get("/broken").body());
        }
    }

    @Test
    void an_advice_that_names_denials_leaves_the_answer_to_outages() {
        Servers.Service other = SERVERS.service("--limit", "5/1m");
        try (App both = new App(WithBothAdvices.class, other.url(), "tollgate.closed-names=login")) {
            other.kill();
            assertEquals(503, both.status("/login"));
            assertEquals("general", both.get("/broken").body());
        }
    }

    @Test
    void limits_are_switched_off_by_name_and_in_all() {
        try (App one = new App(Shop.class, service, "tollgate.policies.switched.enabled=false");
                App all = new App(Shop.class, service, "tollgate.enabled=false")) {
            assertEquals(List.of(200, 200), one.statuses(2, "/switched"));
            assertEquals(List.of(200, 200), all.statuses(2, "/switched"));
            assertEquals(List.of(200, 200), all.statuses(2, "/future"));
        }
        assertEquals(List.of(200, 429), app.statuses(2, "/switched"));
        assertEquals(List.of(200, 200), app.statuses(2, "/disabled"));
    }

    @Retention(RetentionPolicy.RUNTIME)
    @RateLimit(limit = 1, duration = 1, timeUnit = TimeUnit.DAYS)
    @interface OnceADay {}

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({Controller.class, Later.class, Inner.class, Functions.class})
    static class Shop {
        @Bean
        RouterFunction<ServerResponse> functions(Functions functions) {
            return RouterFunctions.route().GET("/function", request -> functions.answer()).build();
        }
    }

    @Import(OwnAdvice.class)
    static class WithOwnAdvice extends Shop {}

    @Import(GeneralAdvice.class)
    static class WithGeneralAdvice extends Shop {}

    @Import({OwnAdvice.class, GeneralAdvice.class})
    static class WithBothAdvices extends Shop {}

    @ControllerAdvice
    static class OwnAdvice {
        @ExceptionHandler
        ResponseEntity<String> denied(RateLimitExceededException denied) {
            return ResponseEntity.status(429).body("mine: " + denied.getDecision().getStatus());
        }
    }

    @RestControllerAdvice
    static class GeneralAdvice {
        @ExceptionHandler(Exception.class)
        ResponseEntity<String> failed() {
            return ResponseEntity.status(500).body("general");
        }
    }

    @Service
    static class Functions {
        @RateLimit(name = "function", limit = 1, duration = 1, timeUnit = TimeUnit.DAYS)
        public ServerResponse answer() {
            return ServerResponse.ok().build();
        }
    }

    @Service
    static class Inner {
        @RateLimit(name = "inner", limit = 1, duration = 1, timeUnit = TimeUnit.DAYS)
        public String call() {
            return "ok";
        }
    }

    @RestController
    static class Controller {
        private final Inner inner;

        Controller(Inner inner) {
            this.inner = inner;
        }

        @RateLimit("search")
        @GetMapping("/search")
        public String search() {
            return "ok";
        }

        @RateLimit("hidden")
        @GetMapping("/hidden")
        public String hidden() {
            return "ok";
        }

        @OnceADay
        @GetMapping("/browser")
        public String browser() {
            return "ok";
        }

        @RateLimit(name = "outer", limit = 5, duration = 1, timeUnit = TimeUnit.DAYS)
        @GetMapping("/twice")
        public String twice() {
            return inner.call();
        }

        @RateLimit(name = "starter", limit = 1, duration = 1, timeUnit = TimeUnit.DAYS, key = "secret-key")
        @GetMapping("/starter")
        public String starter() {
            return "ok";
        }

        @OnceADay
        @GetMapping("/quiet")
        public String quiet() {
            return "ok";
        }

        @RateLimit("login")
        @GetMapping("/login")
        public String login() {
            return "ok";
        }

        @OnceADay
        @GetMapping("/own")
        public String own() {
            return "ok";
        }

        @OnceADay
        @GetMapping("/general")
        public String general() {
            return "ok";
        }

        @GetMapping("/broken")
        public String broken() {
            throw new IllegalStateException("broken");
        }

        @RateLimit(name = "switched", limit = 1, duration = 1, timeUnit = TimeUnit.DAYS)
        @GetMapping("/switched")
        public String switched() {
            return "ok";
        }

        @RateLimit(name = "disabled", limit = 1, duration = 1, timeUnit = TimeUnit.DAYS, enabled = false)
        @GetMapping("/disabled")
        public String disabled() {
            return "ok";
        }

        @RateLimit(
                name = "fallback",
                limit = 1,
                duration = 1,
                timeUnit = TimeUnit.DAYS,
                key = "#{#id}",
                fallback = "cached")
        @GetMapping("/fallback")
        public String fallback(String id) {
            return "fresh " + id;
        }

        private String cached(String id) {
            return "cached " + id;
        }

        @RateLimit(name = "fallback-with-error", quotas = "1/1d", fallback = "explained")
        @GetMapping("/fallback-with-error")
        public String fallbackWithError() {
            return "fresh";
        }

        private String explained(RateLimitExceededException denied) {
            return "denied: " + denied.getName();
        }

        private String explained(RateLimiterBackendException refused, String other) {
            return "of no use: " + refused + other;
        }
    }

    @RestController
    static class Later {
        static final AtomicInteger CALLS = new AtomicInteger();

        @OnceADay
        @GetMapping("/future")
        public CompletableFuture<String> future() {
            CALLS.incrementAndGet();
            return CompletableFuture.supplyAsync(() -> "ok");
        }

        @OnceADay
        @GetMapping("/callable")
        public Callable<String> callable() {
            CALLS.incrementAndGet();
            return () -> "ok";
        }

        @RateLimit(limit = 1, duration = 1, timeUnit = TimeUnit.DAYS, scope = "IP")
        @GetMapping("/mono")
        public Mono<String> mono() {
            CALLS.incrementAndGet();
            return Mono.just("ok");
        }

        @OnceADay
        @GetMapping("/stream")
        public StreamingResponseBody stream() {
            CALLS.incrementAndGet();
            return out -> out.write(new byte[] {'o', 'k'});
        }
    }
}
