package io.github.tollgaters.spring.filter;

import static org.assertj.core.api.Assertions.assertThat;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.http.HttpServletRequest;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.UrlHandlerFilter;
import org.springframework.web.servlet.ModelAndView;
import org.springframework.web.servlet.config.annotation.PathMatchConfigurer;
import org.springframework.web.servlet.config.annotation.ResourceHandlerRegistry;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;
import org.springframework.web.util.pattern.PathPatternParser;

class ServletUrlFilterTest {

    private static RunningService service;

    @BeforeAll
    static void startService() throws Exception {
        service = RunningService.start(
                "  - { name: search, match: { action: search }, key: [user], quotas: [2/1h] }",
                "  - { name: teapot, match: { action: teapot }, key: [ip], quotas: [0/1h], deny_status: 418 }");
    }

    @AfterAll
    static void stopService() throws Exception {
        service.close();
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @RestController
    static class App implements WebMvcConfigurer {

        @RequestMapping("/login")
        String login() {
            return "handler";
        }

        @GetMapping("/search/{what}")
        String search(@PathVariable String what) {
            return "handler";
        }

        @GetMapping("/callable")
        Callable<String> callable() {
            return () -> "handler";
        }

        @GetMapping("/work")
        Callable<String> work(HttpServletRequest request) {
            return () -> {
                request.setAttribute("done", true);
                return "handler";
            };
        }

        @GetMapping("/alias")
        ModelAndView alias() {
            return new ModelAndView("forward:/login");
        }

        @GetMapping("/dispatch")
        void dispatch(HttpServletRequest request) {
            AsyncContext async = request.startAsync();
            async.dispatch("/login");
        }

        @GetMapping("/fails")
        String fails() {
            throw new IllegalStateException("on purpose");
        }

        @Override
        public void addResourceHandlers(ResourceHandlerRegistry registry) {
            registry.addResourceHandler("/files/**").addResourceLocations("classpath:/hostile/");
        }
    }

    /** An app that takes more ways to write a path. */
    @Configuration(proxyBeanMethods = false)
    static class Lenient implements WebMvcConfigurer {

        @Override
        public void configurePathMatch(PathMatchConfigurer configurer) {
            PathPatternParser parser = new PathPatternParser();
            parser.setCaseSensitive(false);
            configurer.setPatternParser(parser);
        }

        @Bean
        UrlHandlerFilter slashes() {
            return UrlHandlerFilter.trailingSlashHandler("/**").wrapRequest().build();
        }
    }

    private interface Check {
        void with(RawHttp http, ConfigurableApplicationContext context) throws Exception;
    }

    private static void app(List<Class<?>> configuration, Check check, String... properties) throws Exception {
        // After a dispatch that failed, Tomcat waits for a request that has ended: 30 s of a graceful shutdown.
        Map<String, Object> all = new LinkedHashMap<>(Map.of("server.port", 0, "spring.main.banner-mode", "off",
                "server.shutdown", "immediate",
                "logging.level.root", "off", "tollgate.timeout", "5s", "tollgate.url", service.url(),
                "spring.main.web-application-type", "servlet"));
        for (String property : properties) {
            all.put(property.substring(0, property.indexOf('=')), property.substring(property.indexOf('=') + 1));
        }
        SpringApplication app = new SpringApplication(configuration.toArray(Class<?>[]::new));
        app.setDefaultProperties(all);
        try (ConfigurableApplicationContext context = app.run()) {
            check.with(new RawHttp(context.getEnvironment().getRequiredProperty("local.server.port", Integer.class)),
                    context);
        }
    }

    private static void app(Check check, String... properties) throws Exception {
        app(List.of(App.class), check, properties);
    }

    /** A limit of one request for each test. */
    private static String[] usedUp(String url, String... more) {
        List<String> properties = new ArrayList<>(List.of("tollgate.filters[0].url=" + url,
                "tollgate.filters[0].name=used-up", "tollgate.filters[0].quotas=1/1h",
                "tollgate.filters[0].key=" + UUID.randomUUID()));
        properties.addAll(List.of(more));
        return properties.toArray(String[]::new);
    }

    @Test
    void no_form_of_a_path_passes_a_limit_that_is_used_up() throws Exception {
        List<List<Class<?>>> apps = List.of(List.of(App.class), List.of(App.class, Lenient.class));
        List<String[]> settings = List.of(new String[0], new String[] {"server.servlet.context-path=/ctx"},
                new String[] {"spring.mvc.pathmatch.matching-strategy=ant_path_matcher"});
        for (List<Class<?>> app : apps) {
            for (String[] setting : settings) {
                String context = setting.length > 0 && setting[0].endsWith("/ctx") ? "/ctx" : "";
                app(app, (http, running) -> {
                    assertThat(http.get(context + "/login").body()).isEqualTo("handler");
                    assertPassed(http, context, HostilePaths.LOGIN, "handler").isEmpty();
                }, usedUp("/login", setting));
                app(app, (http, running) -> {
                    assertThat(http.get(context + "/files/secret.txt").body()).isEqualTo("secret\n");
                    assertPassed(http, context, HostilePaths.FILE, "secret\n").isEmpty();
                }, usedUp("/files/secret.txt", setting));
            }
        }
    }

    @Test
    void a_path_includes_that_of_the_dispatcher() throws Exception {
        app((http, running) -> {
            assertThat(http.get("/mvc/login").body()).isEqualTo("handler");
            assertPassed(http, "/mvc", HostilePaths.LOGIN, "handler").isEmpty();
        }, usedUp("/mvc/login", "spring.mvc.servlet.path=/mvc"));
    }

    @Test
    void the_hostile_paths_reach_their_handlers_without_a_limit() throws Exception {
        app(List.of(App.class, Lenient.class), (http, running) -> {
            assertPassed(http, "", HostilePaths.LOGIN, "handler").hasSizeGreaterThan(12);
            assertPassed(http, "", HostilePaths.FILE, "secret\n").hasSizeGreaterThan(5);
        });
    }

    private static org.assertj.core.api.ListAssert<String> assertPassed(
            RawHttp http, String context, List<String> paths, String body) throws Exception {
        List<String> passed = new ArrayList<>();
        for (String path : paths) {
            for (String method : List.of("GET", "HEAD", "POST")) {
                String target = path.startsWith("/") ? context + path : path;
                RawHttp.Response response = http.send(method, target, "");
                boolean isHead = method.equals("HEAD") && response.status() == 200;
                if (response.body().equals(body) || isHead) {
                    passed.add(method + " " + target);
                }
            }
        }
        return assertThat(passed);
    }

    @Test
    void answers_a_denial_as_all_clients_do() throws Exception {
        app((http, running) -> {
            RawHttp.Response admitted = http.get("/login");
            assertThat(admitted.status()).isEqualTo(200);
            assertThat(admitted.headers().get("ratelimit")).startsWith("\"used-up:caller\";r=0;t=");
            RawHttp.Response denied = http.get("/login");
            assertThat(denied.status()).isEqualTo(429);
            assertThat(denied.headers()).containsEntry("content-type", "application/problem+json")
                    .containsEntry("cache-control", "no-store").containsKeys("retry-after", "ratelimit");
            assertThat(denied.body()).isEqualTo("{\"type\":\"https://iana.org/assignments/http-problem-types#quota-"
                    + "exceeded\",\"title\":\"Quota exceeded\",\"status\":429,\"detail\":\"retry in "
                    + denied.headers().get("retry-after") + " s\",\"violated-policies\":[\"used-up:caller\"]}");
        }, usedUp("/login"));
    }

    @Test
    void leaves_out_the_limit_headers() throws Exception {
        for (String property : List.of("tollgate.filters[0].headers=false", "tollgate.include-http-headers=false")) {
            app((http, running) -> {
                assertThat(http.get("/login").headers()).doesNotContainKeys("ratelimit", "ratelimit-policy");
                assertThat(http.get("/login").headers()).doesNotContainKey("ratelimit").containsKey("retry-after");
            }, usedUp("/login", property));
        }
    }

    @Test
    void answers_with_the_status_of_the_policy() throws Exception {
        app((http, running) -> assertThat(http.get("/login").status()).isEqualTo(418),
                "tollgate.filters[0].url=/login", "tollgate.filters[0].name=teapot");
    }

    @Test
    void answers_as_the_redis_starter_does() throws Exception {
        app((http, running) -> {
            http.get("/login");
            RawHttp.Response denied = http.get("/login");
            assertThat(denied.status()).isEqualTo(429);
            assertThat(denied.headers()).containsEntry("ratelimit-limit", "1").containsEntry("ratelimit-remaining", "0")
                    .containsEntry("ratelimit-reset", denied.headers().get("retry-after"));
            assertThat(denied.body()).contains("\"title\":\"Rate limit exceeded\"", "\"limit\":1", "\"name\":\"used-up\"",
                    "\"retryAfterSeconds\":" + denied.headers().get("retry-after")).doesNotContain("\"key\"");
        }, usedUp("/login", "tollgate.problem=starter"));
    }

    @Test
    void counts_by_expressions() throws Exception {
        String[] properties = {"tollgate.filters[0].url=/search/**", "tollgate.filters[0].name=search",
            "tollgate.filters[0].attributes.user=#{headers['X-User'] ?: 'nobody'}",
            "tollgate.filters[0].condition=#{params['free'] == null and #ip != '10.0.0.1'}",
            "tollgate.filters[0].cost=#{params['cost'] ?: 1}", "tollgate.filters[0].methods=GET"};
        app((http, running) -> {
            assertThat(http.get("/search/a?cost=2", "x-user: ann").status()).isEqualTo(200);
            assertThat(http.get("/search/a", "x-user: ann").status()).isEqualTo(429);
            assertThat(http.get("/search/a?free", "x-user: ann").status()).isEqualTo(200);
            assertThat(http.get("/search/b", "x-user: bob").status()).isEqualTo(200);
            assertThat(http.send("HEAD", "/search/a", "", "x-user: ann").status()).isEqualTo(429);
            assertThat(http.send("DELETE", "/search/a", "", "x-user: ann").status()).isEqualTo(405);
            String longest = "l".repeat(2_000);
            assertThat(http.get("/search/a?cost=2", "x-user: " + longest).status()).isEqualTo(200);
            assertThat(http.get("/search/a", "x-user: " + longest).status()).isEqualTo(429);
            // What the caller sends cannot be evaluated.
            assertThat(http.get("/search/a", "x-user: #{T(java.lang.System).exit(1)}").status()).isEqualTo(200);
            // An error of the app: the request is not admitted.
            assertThat(http.get("/search/a?cost=x", "x-user: eve").status()).isEqualTo(500);
            assertThat(http.get("/search/a?cost=-1", "x-user: eve").status()).isEqualTo(500);
        }, properties);
    }

    @Test
    void asks_no_condition_again_after_the_work_is_done() throws Exception {
        app((http, running) -> {
            assertThat(http.get("/work").status()).isEqualTo(200);
            assertThat(http.get("/work").status()).isEqualTo(200);
        }, usedUp("/work", "tollgate.filters[0].condition=#{request.getAttribute('done') != null}"));
    }

    @Test
    void does_not_admit_what_it_cannot_count() throws Exception {
        for (String key : List.of("#{principal.name}", "#{headers['x-none']}", "a-#{headers['x-none']}", "#{request}",
                "#{''}", "#{T(java.util.List).of()}")) {
            app((http, running) -> assertThat(http.get("/login").status()).as(key).isEqualTo(500),
                    "tollgate.filters[0].url=/login", "tollgate.filters[0].key=" + key);
        }
    }

    @Test
    void counts_a_request_once_however_often_it_is_dispatched() throws Exception {
        String key = UUID.randomUUID().toString();
        String[] all = {"tollgate.filters[0].url=/**", "tollgate.filters[0].name=all", "tollgate.filters[0].quotas=4/1h",
            "tollgate.filters[0].key=" + key, "tollgate.filters[1].url=/login", "tollgate.filters[1].name=all",
            "tollgate.filters[1].quotas=4/1h", "tollgate.filters[1].key=" + key};
        app((http, running) -> {
            assertThat(http.get("/callable").headers().get("ratelimit")).contains("r=3");
            assertThat(http.get("/alias").headers().get("ratelimit")).contains("r=2");
            assertThat(http.get("/dispatch").headers().get("ratelimit")).contains("r=1");
            assertThat(http.get("/fails").status()).isEqualTo(500);
            assertThat(http.get("/login").status()).isEqualTo(429);
        }, all);
    }

    @Test
    void follows_the_order_of_filters() throws Exception {
        String key = UUID.randomUUID().toString();
        app((http, running) -> {
            assertThat(http.get("/login").headers().get("ratelimit")).startsWith("\"late");
            assertThat(http.get("/login").body()).contains("early:caller");
        }, "tollgate.filters[0].url=/login", "tollgate.filters[0].name=late", "tollgate.filters[0].quotas=1/1h",
                "tollgate.filters[0].key=" + key, "tollgate.filters[1].url=/**", "tollgate.filters[1].name=early",
                "tollgate.filters[1].quotas=1/1h", "tollgate.filters[1].key=" + key, "tollgate.filters[1].order=-1");
    }

    @Test
    void switches_limits_off() throws Exception {
        for (String property : List.of("tollgate.enabled=false", "tollgate.filters[0].enabled=false",
                "tollgate.policies.used-up.enabled=false", "tollgate.filters[0].methods=PUT")) {
            app((http, running) -> {
                assertThat(http.get("/login").status()).isEqualTo(200);
                assertThat(http.get("/login").status()).isEqualTo(200);
            }, usedUp("/login", property));
        }
    }

    @Test
    void says_what_happens_without_the_service() throws Exception {
        String[] gone = {"tollgate.url=http://127.0.0.1:1", "tollgate.filters[0].url=/login"};
        app((http, running) -> assertThat(http.get("/login").status()).isEqualTo(200), gone);
        for (String closed : List.of("tollgate.on-failure=closed", "tollgate.fail-open=false",
                "tollgate.closed-names=/login")) {
            List<String> properties = new ArrayList<>(List.of(gone));
            properties.add(closed);
            app((http, running) -> {
                RawHttp.Response refused = http.get("/login");
                assertThat(refused.status()).isEqualTo(503);
                assertThat(refused.headers()).doesNotContainKey("retry-after").containsEntry("cache-control", "no-store");
                assertThat(refused.body()).isEqualTo("{\"title\":\"Rate limiter unavailable\",\"status\":503}");
            }, properties.toArray(String[]::new));
        }
    }

    @Test
    void limits_users_as_rlaas_does() throws Exception {
        for (String algorithm : List.of("fixed-window-algo", "sliding-window-algo")) {
            String user = "ann" + UUID.randomUUID();
            app((http, running) -> {
                assertThat(http.get("/login?userId=" + user).status()).isEqualTo(200);
                assertThat(http.send("POST", "/login", "userId=" + user,
                        "Content-Type: application/x-www-form-urlencoded").status()).isEqualTo(200);
                RawHttp.Response denied = http.get("/search/a?userId=" + user);
                assertThat(denied.status()).isEqualTo(429);
                assertThat(denied.headers()).containsEntry("content-type", "text/plain;charset=UTF-8")
                        .containsEntry("cache-control", "no-store");
                assertThat(denied.body()).isEqualTo("User is not allowed...Try after "
                        + denied.headers().get("retry-after") + " seconds.");
                for (String nobody : List.of("/login", "/login?userId=", "/login?userid=x", "/none")) {
                    RawHttp.Response wrong = http.get(nobody);
                    assertThat(wrong.status()).isEqualTo(400);
                    assertThat(wrong.body()).contains("the parameter `userId` is missing");
                }
            }, "tollgate.use-algo=" + algorithm, "tollgate.window-size=3600", "tollgate.max-requests=2");
        }
    }

    @Test
    void finds_wrong_patterns_and_expressions_at_the_start() {
        assertThat(failure("tollgate.filters[0].url=/a", "tollgate.filters[0].attributes.user_id=x"))
                .contains("tollgate.filters[0].attributes.user_id has a character in `user_id`", "[user_id]");
        Map.of("url=/api/.*", "looks like a regular expression", "key=#request.remoteAddr", "write #{#request.remoteAddr}",
                "cost=-1", "must be a whole number", "condition=true", "must be one expression", "key=#{", "no expression")
                .forEach((property, message) -> assertThat(failure("tollgate.filters[0].url=/a",
                        "tollgate.filters[0]." + property)).contains("tollgate.filters[0]." + property.split("=")[0],
                        message));
    }

    private static String failure(String... properties) {
        try {
            app((http, running) -> { }, properties);
            return "it started";
        } catch (Exception error) {
            StringBuilder messages = new StringBuilder();
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                messages.append(cause.getMessage()).append('\n');
            }
            return messages.toString();
        }
    }
}
