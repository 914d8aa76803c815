package io.github.tollgaters.spring.filter;

import static org.assertj.core.api.Assertions.assertThat;

import java.security.Principal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.core.io.DefaultResourceLoader;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.reactive.UrlHandlerFilter;
import org.springframework.web.reactive.config.PathMatchConfigurer;
import org.springframework.web.reactive.config.ResourceHandlerRegistry;
import org.springframework.web.reactive.config.WebFluxConfigurer;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Mono;

class ReactiveUrlFilterTest {

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
    static class App implements WebFluxConfigurer {

        @RequestMapping("/login")
        Mono<String> login() {
            return Mono.just("handler");
        }

        @GetMapping("/search/{what}")
        Mono<String> search(@PathVariable("what") String what) {
            return Mono.just("handler");
        }

        private static Mono<Principal> session(String who) {
            return who.equals("nobody")
                    ? Mono.error(new IllegalStateException("the store of sessions is away"))
                    : Mono.just(() -> who);
        }

        @Bean
        @Order(-100)
        WebFilter principal() {
            return (exchange, chain) -> {
                String who = exchange.getRequest().getHeaders().getFirst("X-Who");
                return chain.filter(
                        who == null ? exchange : exchange.mutate().principal(session(who)).build());
            };
        }

        @Override
        public void addResourceHandlers(ResourceHandlerRegistry registry) {
            registry.addResourceHandler("/files/**").addResourceLocations("classpath:/hostile/");
        }
    }

    /** An app that takes more ways to write a path. */
    @Configuration(proxyBeanMethods = false)
    static class Lenient implements WebFluxConfigurer {

        @Override
        public void configurePathMatching(PathMatchConfigurer configurer) {
            configurer.setUseCaseSensitiveMatch(false);
        }

        @Bean
        UrlHandlerFilter slashes() {
            return UrlHandlerFilter.trailingSlashHandler("/**").mutateRequest().build();
        }
    }

    private interface Check {
        void with(RawHttp http) throws Exception;
    }

    private static void app(List<Class<?>> configuration, Check check, String... properties) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>(Map.of("server.port", 0, "spring.main.banner-mode", "off",
                "logging.level.root", "off", "tollgate.timeout", "5s", "tollgate.url", service.url()));
        for (String property : properties) {
            all.put(property.substring(0, property.indexOf('=')), property.substring(property.indexOf('=') + 1));
        }
        // Spring Boot would prefer Tomcat, which is there for the tests of MVC.
        SpringApplication app = new SpringApplication(
                new DefaultResourceLoader(new FilteredClassLoader("org.apache.catalina")),
                configuration.toArray(Class<?>[]::new));
        app.setWebApplicationType(WebApplicationType.REACTIVE);
        app.setDefaultProperties(all);
        try (ConfigurableApplicationContext context = app.run()) {
            check.with(new RawHttp(context.getEnvironment().getRequiredProperty("local.server.port", Integer.class)));
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
    void no_form_of_a_path_passes_a_limit_that_is_used_up() throws Exception {
        for (List<Class<?>> app : List.of(List.<Class<?>>of(App.class), List.<Class<?>>of(App.class, Lenient.class))) {
            for (String context : List.of("", "/ctx")) {
                String[] setting = context.isEmpty() ? new String[0] : new String[] {"spring.webflux.base-path=/ctx"};
                app(app, http -> {
                    assertThat(http.get(context + "/login").body()).isEqualTo("handler");
                    assertPassed(http, context, HostilePaths.LOGIN, "handler").isEmpty();
                }, usedUp("/login", setting));
                app(app, http -> {
                    assertThat(http.get(context + "/files/secret.txt").body()).isEqualTo("secret\n");
                    assertPassed(http, context, HostilePaths.FILE, "secret\n").isEmpty();
                }, usedUp("/files/secret.txt", setting));
            }
        }
    }

    @Test
    void the_hostile_paths_reach_their_handlers_without_a_limit() throws Exception {
        app(List.of(App.class, Lenient.class), http -> {
            assertPassed(http, "", HostilePaths.LOGIN, "handler").hasSizeGreaterThan(12);
            assertPassed(http, "", HostilePaths.FILE, "secret\n").hasSizeGreaterThan(5);
        });
    }

    @Test
    void answers_a_denial_as_all_clients_do() throws Exception {
        app(http -> {
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
        app(http -> assertThat(http.get("/login").status()).isEqualTo(418),
                "tollgate.filters[0].url=/login", "tollgate.filters[0].name=teapot");
    }

    @Test
    void counts_by_expressions_of_the_request() throws Exception {
        app(http -> {
            assertThat(http.get("/search/a?cost=2", "x-user: ann").status()).isEqualTo(200);
            assertThat(http.get("/search/a", "x-user: ann").status()).isEqualTo(429);
            assertThat(http.get("/search/a?free", "x-user: ann").status()).isEqualTo(200);
            assertThat(http.get("/search/b", "x-user: bob").status()).isEqualTo(200);
            assertThat(http.send("HEAD", "/search/a", "", "x-user: ann").status()).isEqualTo(429);
            // An error of the app: the request is not admitted.
            assertThat(http.get("/search/a?cost=x", "x-user: eve").status()).isEqualTo(500);
        }, "tollgate.filters[0].url=/search/**", "tollgate.filters[0].name=search",
                "tollgate.filters[0].attributes.user=#{headers['X-User'] ?: 'nobody'}",
                "tollgate.filters[0].condition=#{params['free'] == null and #ip != '10.0.0.1'}",
                "tollgate.filters[0].cost=#{params['cost'] ?: 1}", "tollgate.filters[0].methods=GET");
        app(http -> {
            assertThat(http.get("/login", "x-who: ann").status()).isEqualTo(200);
            assertThat(http.get("/login", "x-who: ann").status()).isEqualTo(429);
            assertThat(http.get("/login", "x-who: bob").status()).isEqualTo(200);
            assertThat(http.get("/login").status()).isEqualTo(500);
        }, "tollgate.filters[0].url=/login", "tollgate.filters[0].name=principals",
                "tollgate.filters[0].quotas=1/1h", "tollgate.filters[0].key=#{principal.name}");
    }

    @Test
    void expressions_see_the_request() throws Exception {
        app(http -> {
            assertThat(http.get("/login").status()).isEqualTo(200);
            assertThat(http.get("/login").status()).isEqualTo(429);
            assertThat(http.send("POST", "/login", "").status()).isEqualTo(200);
        }, "tollgate.filters[0].url=/login", "tollgate.filters[0].name=requests", "tollgate.filters[0].quotas=1/1h",
                "tollgate.filters[0].key=#{request.method.name()}#{#request.headers.getFirst('x-user') ?: 'nobody'}");
    }

    @Test
    void looks_up_the_principal_only_for_a_limit_that_needs_it() throws Exception {
        app(http -> {
            assertThat(http.get("/nothing", "x-who: nobody").status()).isEqualTo(404);
            assertThat(http.get("/login", "x-who: nobody").status()).isEqualTo(200);
            assertThat(http.get("/search/a", "x-who: nobody").status()).isEqualTo(500);
            assertThat(http.get("/search/a", "x-who: ann").status()).isEqualTo(200);
            assertThat(http.get("/search/a").status()).isEqualTo(429);
        }, "tollgate.filters[0].url=/login", "tollgate.filters[0].name=addresses", "tollgate.filters[0].quotas=1/1h",
                "tollgate.filters[1].url=/search/**", "tollgate.filters[1].name=principals-" + UUID.randomUUID(),
                "tollgate.filters[1].quotas=1/1h", "tollgate.filters[1].key=everybody",
                "tollgate.filters[1].condition=#{#root.principal == null or #root.principal.name == 'ann'}");
    }

    @Test
    void leaves_every_request_alone_if_there_is_no_limit() throws Exception {
        app(http -> {
            assertThat(http.get("/login", "x-who: nobody").status()).isEqualTo(200);
            assertThat(http.get("/%zz").body()).doesNotContain("the path is encoded wrongly");
        });
    }

    @Test
    void asks_every_limit_once_in_their_order() throws Exception {
        String key = UUID.randomUUID().toString();
        app(http -> {
            assertThat(http.get("/login").status()).isEqualTo(200);
            assertThat(http.get("/login").status()).isEqualTo(200);
            assertThat(http.get("/login").body()).contains("\"narrow:caller\"");
            assertThat(http.get("/search/a").status()).isEqualTo(200);
            assertThat(http.get("/search/a").body()).contains("\"wide:caller\"");
        }, "tollgate.filters[0].url=/**", "tollgate.filters[0].name=wide", "tollgate.filters[0].quotas=3/1h",
                "tollgate.filters[0].key=" + key, "tollgate.filters[0].order=1",
                "tollgate.filters[1].url=/login", "tollgate.filters[1].name=narrow",
                "tollgate.filters[1].quotas=2/1h", "tollgate.filters[1].key=" + key,
                "tollgate.filters[2].url=/login/**", "tollgate.filters[2].name=narrow",
                "tollgate.filters[2].quotas=2/1h", "tollgate.filters[2].key=" + key);
    }

    @Test
    void limits_by_the_parameter_of_the_users_service() throws Exception {
        String user = UUID.randomUUID().toString();
        app(http -> {
            assertThat(http.get("/login?userId=" + user).status()).isEqualTo(200);
            RawHttp.Response denied = http.get("/login?userId=" + user);
            assertThat(denied.status()).isEqualTo(429);
            assertThat(denied.body()).isEqualTo(
                    "User is not allowed...Try after " + denied.headers().get("retry-after") + " seconds.");
            assertThat(http.get("/login").status()).isEqualTo(400);
        }, "tollgate.use-algo=fixed-window-algo", "tollgate.window-size=3600", "tollgate.max-requests=1");
    }

    @Test
    void answers_503_without_the_service_if_it_is_closed() throws Exception {
        String[] nobody = usedUp("/login", "tollgate.url=http://127.0.0.1:1", "tollgate.on-failure=closed");
        app(http -> {
            RawHttp.Response refused = http.get("/login");
            assertThat(refused.status()).isEqualTo(503);
            assertThat(refused.headers()).containsEntry("cache-control", "no-store").doesNotContainKey("retry-after");
            assertThat(refused.body()).isEqualTo("{\"title\":\"Rate limiter unavailable\",\"status\":503}");
        }, nobody);
        app(http -> assertThat(http.get("/login").status()).isEqualTo(200),
                usedUp("/login", "tollgate.url=http://127.0.0.1:1"));
    }
}
