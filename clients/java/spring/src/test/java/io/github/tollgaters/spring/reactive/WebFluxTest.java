package io.github.tollgaters.spring.reactive;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.mvc.Servers;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.Principal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.core.annotation.Order;
import org.springframework.core.io.DefaultResourceLoader;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

class WebFluxTest {
    private static final HttpClient HTTP =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private static final String POLICIES = """
            policies:
            - { name: search, match: { action: search }, key: [key], quotas: [3/1h], headers: [x-ratelimit] }
            - { name: address, match: { action: address }, key: [ip], quotas: [1/1h] }
            - { name: teapot, match: { action: teapot }, key: [key], quotas: [1/1h], deny_status: 418 }
            """;

    private static final Queue<String> REFUSALS = new ConcurrentLinkedQueue<>();

    private final Servers servers = new Servers();
    private final List<ConfigurableApplicationContext> apps = new ArrayList<>();

    @AfterEach
    void stop() throws Exception {
        apps.forEach(ConfigurableApplicationContext::close);
        servers.close();
    }

    private String app(Servers.Service service, String... arguments) {
        // Spring Boot would prefer Tomcat, which is there for the tests of MVC.
        ClassLoader withoutTomcat = new FilteredClassLoader("org.apache.catalina");
        SpringApplication application =
                new SpringApplication(new DefaultResourceLoader(withoutTomcat), App.class);
        application.setWebApplicationType(WebApplicationType.REACTIVE);
        List<String> all = new ArrayList<>(List.of(
                "--server.port=0",
                "--server.address=127.0.0.1",
                "--spring.main.banner-mode=off",
                "--tollgate.url=" + service.url()));
        all.addAll(List.of(arguments));
        if (all.stream().noneMatch(argument -> argument.startsWith("--tollgate.timeout="))) {
            all.add("--tollgate.timeout=5s");
        }
        ConfigurableApplicationContext context = application.run(all.toArray(String[]::new));
        apps.add(context);
        return "http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port");
    }

    private static HttpResponse<String> get(String url, String... headers) throws Exception {
        return HTTP.send(request(url, headers), HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8));
    }

    private static HttpRequest request(String url, String... headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(30));
        if (headers.length > 0) {
            request.headers(headers);
        }
        return request.build();
    }

    @Test
    void aDenialIsAProblemAndTheMethodIsNotCalled() throws Exception {
        String url = app(servers.policies(POLICIES));
        for (int call = 0; call < 3; call++) {
            HttpResponse<String> admitted = get(url + "/mono/alice");
            assertThat(admitted.statusCode()).isEqualTo(200);
            assertThat(admitted.headers().firstValue("X-RateLimit-Remaining")).hasValue(Integer.toString(2 - call));
        }
        HttpResponse<String> denied = get(url + "/mono/alice");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().firstValue("Content-Type")).hasValue("application/problem+json");
        assertThat(denied.headers().firstValue("Cache-Control")).hasValue("no-store");
        assertThat(denied.headers().allValues("Retry-After")).hasSize(1);
        assertThat(denied.body()).contains("Quota exceeded", "\"search\"");
        assertThat(get(url + "/mono/bob").statusCode()).isEqualTo(200);
        assertThat(apps.get(0).getBean(Calls.class).count).hasValue(4);
    }

    @Test
    void aFluxIsCheckedOncePerSubscriptionHoweverMuchItEmits() throws Exception {
        String url = app(servers.policies(POLICIES));
        for (int call = 0; call < 3; call++) {
            assertThat(get(url + "/flux/alice").body()).isEqualTo("abc");
        }
        assertThat(get(url + "/flux/alice").statusCode()).isEqualTo(429);
        // Its repetition subscribes three times, so the fourth of them is that of the next call.
        assertThat(get(url + "/repeat/bob").body()).isEqualTo("abcabcabc");
        assertThat(get(url + "/flux/bob").statusCode()).isEqualTo(429);
    }

    @Test
    void theSubscribersContextReachesTheMethod() throws Exception {
        String url = app(servers.policies(POLICIES));
        assertThat(get(url + "/context/alice", "X-Who", "carol").body()).isEqualTo("carol");
    }

    @Test
    void theMethodRunsOnNoThreadOfTheClient() throws Exception {
        String url = app(servers.policies(POLICIES));
        assertThat(get(url + "/thread/alice").body()).startsWith("parallel");
    }

    @Test
    void aFallbackIsSubscribedInsteadOfADeniedMethod() throws Exception {
        String url = app(servers.policies(POLICIES));
        for (int call = 0; call < 3; call++) {
            assertThat(get(url + "/fallback/alice").body()).isEqualTo("fresh");
        }
        HttpResponse<String> fallback = get(url + "/fallback/alice");
        assertThat(fallback.statusCode()).isEqualTo(200);
        assertThat(fallback.body()).isEqualTo("stale for alice");
    }

    @Test
    void errorsOfTheMethodDoNotReachTheFallback() throws Exception {
        String url = app(servers.policies(POLICIES));
        assertThat(get(url + "/failing/alice").statusCode()).isEqualTo(500);
    }

    @Test
    void theStatusOfThePolicyIsTheStatusOfTheAnswer() throws Exception {
        String url = app(servers.policies(POLICIES));
        assertThat(get(url + "/teapot").statusCode()).isEqualTo(200);
        assertThat(get(url + "/teapot").statusCode()).isEqualTo(418);
    }

    @Test
    void expressionsSeeTheRequest() throws Exception {
        String url = app(servers.policies(POLICIES));
        for (int call = 0; call < 3; call++) {
            assertThat(get(url + "/header", "X-User", "alice").statusCode()).isEqualTo(200);
        }
        assertThat(get(url + "/header", "X-User", "alice").statusCode()).isEqualTo(429);
        assertThat(get(url + "/header", "X-User", "bob").statusCode()).isEqualTo(200);
        assertThat(get(url + "/header").statusCode()).isEqualTo(500);
    }

    @Test
    void policiesSeeTheAddressOfTheRequestWithoutAKey() throws Exception {
        String url = app(servers.policies(POLICIES));
        assertThat(get(url + "/address").statusCode()).isEqualTo(200);
        assertThat(get(url + "/address").statusCode()).isEqualTo(429);
    }

    /** Both strategies take the first address, which callers choose if the proxy appends its own. */
    @Test
    void behindAProxyAHeaderCountsThatTheProxyReplaces() throws Exception {
        for (String strategy : List.of("native", "framework")) {
            String url = app(servers.policies(POLICIES), "--server.forward-headers-strategy=" + strategy);
            String last = ", 203.0.113.99";
            assertThat(get(url + "/address", "X-Forwarded-For", "198.51.100.1" + last).statusCode()).isEqualTo(200);
            assertThat(get(url + "/address", "X-Forwarded-For", "198.51.100.2" + last).statusCode()).isEqualTo(200);
            assertThat(get(url + "/address", "X-Forwarded-For", "203.0.113.99").statusCode()).isEqualTo(200);
            assertThat(get(url + "/address", "X-Forwarded-For", "203.0.113.99").statusCode()).isEqualTo(429);
            assertThat(get(url + "/real-ip", "X-Real-IP", "203.0.113.7").statusCode()).isEqualTo(200);
            assertThat(get(url + "/real-ip", "X-Real-IP", "203.0.113.7").statusCode()).isEqualTo(429);
            assertThat(get(url + "/real-ip", "X-Real-IP", "203.0.113.8").statusCode()).isEqualTo(200);
        }
    }

    @Test
    void aScopeOfUsersCountsThePrincipal() throws Exception {
        String url = app(servers.service("--limit", "1000/1h", "--caller-quotas"));
        assertThat(get(url + "/user", "X-Who", "alice").statusCode()).isEqualTo(200);
        assertThat(get(url + "/user", "X-Who", "alice").statusCode()).isEqualTo(429);
        assertThat(get(url + "/user", "X-Who", "bob").statusCode()).isEqualTo(200);
        assertThat(get(url + "/user").statusCode()).isEqualTo(500);
    }

    @Test
    void theUserIsLookedUpOnlyForALimitThatNeedsIt() throws Exception {
        String url = app(servers.policies(POLICIES, "--caller-quotas"));
        assertThat(get(url + "/mono/alice", "X-Who", "nobody").statusCode()).isEqualTo(200);
        assertThat(get(url + "/address", "X-Who", "nobody").statusCode()).isEqualTo(200);
        assertThat(get(url + "/user", "X-Who", "nobody").statusCode()).isEqualTo(500);
        assertThat(REFUSALS).contains("the store of sessions is away");
    }

    @Test
    void aServiceBehindAFunctionalRouteIsLimitedToo() throws Exception {
        String url = app(servers.policies(POLICIES));
        for (int call = 0; call < 3; call++) {
            assertThat(get(url + "/functional").statusCode()).isEqualTo(200);
        }
        HttpResponse<String> denied = get(url + "/functional");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("Quota exceeded");
    }

    @Test
    void aMethodThatWouldBlockTheEventLoopIsRefused() throws Exception {
        Servers.Service service = servers.policies(POLICIES);
        assertThat(get(app(service) + "/blocking/alice").statusCode()).isEqualTo(500);
        assertThat(REFUSALS).anySatisfy(message -> assertThat(message).contains("Api#blocking", "Mono", "reactor-http"));
        // The same method on a thread that may wait.
        String url = app(service);
        for (int call = 0; call < 3; call++) {
            assertThat(get(url + "/offloaded/alice").statusCode()).isEqualTo(200);
        }
        assertThat(get(url + "/offloaded/alice").statusCode()).isEqualTo(429);
    }

    @Test
    void withoutTheServiceCallsAreAdmittedOrAnswered503() throws Exception {
        Servers.Service service = servers.policies(POLICIES);
        String open = app(service);
        String closed = app(service, "--tollgate.on-failure=closed");
        service.process().destroyForcibly().waitFor();
        assertThat(get(open + "/mono/alice").statusCode()).isEqualTo(200);
        HttpResponse<String> denied = get(closed + "/mono/alice");
        assertThat(denied.statusCode()).isEqualTo(503);
        assertThat(denied.headers().firstValue("Retry-After")).isEmpty();
        assertThat(denied.body()).contains("Rate limiter unavailable");
    }

    @Test
    void aServiceThatStopsAnsweringBlocksNoThread() throws Exception {
        Servers.Service service = servers.policies(POLICIES);
        String url = app(service, "--tollgate.timeout=4s");
        assertThat(get(url + "/mono/warm").statusCode()).isEqualTo(200);
        service.signal("STOP");
        long start = System.nanoTime();
        List<CompletableFuture<Integer>> waiting = new ArrayList<>();
        for (int call = 0; call < 64; call++) {
            waiting.add(status(url + "/mono/alice"));
        }
        // While all of them wait, the event loops serve others.
        assertThat(get(url + "/unlimited").statusCode()).isEqualTo(200);
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(3));
        assertThat(waiting).allSatisfy(answer -> assertThat(answer.join()).isEqualTo(200));
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(10));
        service.signal("CONT");
    }

    @Test
    void admitsExactlyTwentyOfFiftyOverTwoApps() throws Exception {
        String redis = servers.redis();
        String policies = POLICIES.replace("3/1h", "20/1h");
        List<String> urls = List.of(
                app(servers.policies(policies, "--store", redis, "--store-timeout", "10s")),
                app(servers.policies(policies, "--store", redis, "--store-timeout", "10s")));
        List<CompletableFuture<Integer>> answers = new ArrayList<>();
        for (int call = 0; call < 50; call++) {
            answers.add(status(urls.get(call % 2) + "/mono/alice"));
        }
        assertThat(answers.stream().map(CompletableFuture::join).filter(status -> status == 200))
                .hasSize(20);
        assertThat(apps.stream().mapToInt(app -> app.getBean(Calls.class).count.get()).sum())
                .isEqualTo(20);
    }

    private static CompletableFuture<Integer> status(String url) {
        return HTTP.sendAsync(request(url), HttpResponse.BodyHandlers.discarding())
                .thenApply(HttpResponse::statusCode);
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({Calls.class, Api.class, Callers.class, Catalog.class})
    static class App {
        /** Stands for the login of the app: the principal, and a value in the subscriber's context. */
        @Bean
        @Order(-100)
        WebFilter login() {
            return (exchange, chain) -> {
                String who = exchange.getRequest().getHeaders().getFirst("X-Who");
                if (who == null) {
                    return chain.filter(exchange);
                }
                return chain.filter(exchange.mutate()
                                .principal(session(who))
                                .build())
                        .contextWrite(context -> context.put("who", who));
            };
        }

        private static Mono<Principal> session(String who) {
            return who.equals("nobody")
                    ? Mono.error(new IllegalStateException("the store of sessions is away"))
                    : Mono.just(() -> who);
        }

        @Bean
        WebFilter errors() {
            return (exchange, chain) ->
                    chain.filter(exchange).doOnError(error -> REFUSALS.add(String.valueOf(error.getMessage())));
        }

        @Bean
        RouterFunction<ServerResponse> routes(Catalog catalog) {
            return RouterFunctions.route()
                    .GET("/functional", request -> ServerResponse.ok().body(catalog.find("all"), String.class))
                    .build();
        }
    }

    public static class Calls {
        final AtomicInteger count = new AtomicInteger();
    }

    @RestController
    public static class Api {
        private final Calls calls;

        Api(Calls calls) {
            this.calls = calls;
        }

        @GetMapping("/unlimited")
        public Mono<String> unlimited() {
            return Mono.just("unlimited");
        }

        @GetMapping("/mono/{user}")
        @RateLimit(name = "search", key = "#{#user}")
        public Mono<String> mono(@PathVariable("user") String user) {
            calls.count.incrementAndGet();
            return Mono.just("found");
        }

        @GetMapping("/context/{user}")
        @RateLimit(name = "search", key = "#{#user}")
        public Mono<String> context(@PathVariable("user") String user) {
            return Mono.deferContextual(context -> Mono.just(context.<String>get("who")));
        }

        @GetMapping("/thread/{user}")
        @RateLimit(name = "search", key = "#{#user}")
        public Mono<String> thread(@PathVariable("user") String user) {
            return Mono.just(Thread.currentThread().getName());
        }

        @GetMapping("/fallback/{user}")
        @RateLimit(name = "search", key = "#{#user}", fallback = "stale")
        public Mono<String> fresh(@PathVariable("user") String user) {
            return Mono.just("fresh");
        }

        public Mono<String> stale(String user) {
            return Mono.just("stale for " + user);
        }

        @GetMapping("/failing/{user}")
        @RateLimit(name = "search", key = "#{#user}", fallback = "stale")
        public Mono<String> failing(@PathVariable("user") String user) {
            return Mono.error(new IllegalStateException("of the method"));
        }

        @GetMapping("/teapot")
        @RateLimit(name = "teapot", key = "all")
        public Mono<String> teapot() {
            return Mono.just("tea");
        }

        @GetMapping("/header")
        @RateLimit(name = "search", key = "#{#request.headers.getFirst('X-User')}")
        public Mono<String> header() {
            return Mono.just("found");
        }

        @GetMapping("/address")
        @RateLimit("address")
        public Mono<String> address() {
            return Mono.just("found");
        }

        @GetMapping("/real-ip")
        @RateLimit(name = "address", key = "#{ {ip: #request.headers.getFirst('X-Real-IP')} }")
        public Mono<String> realIp() {
            return Mono.just("found");
        }

        @GetMapping("/user")
        @RateLimit(name = "profile", scope = "USER", quotas = "1/1h")
        public Mono<String> user() {
            return Mono.just("found");
        }

        @GetMapping("/blocking/{user}")
        @RateLimit(name = "search", key = "#{#user}")
        public String blocking(@PathVariable("user") String user) {
            return "found";
        }
    }

    /** Calls limited methods of other beans. */
    @RestController
    public static class Callers {
        private final Catalog catalog;

        Callers(Catalog catalog) {
            this.catalog = catalog;
        }

        @GetMapping("/flux/{user}")
        public Flux<String> flux(@PathVariable("user") String user) {
            return catalog.letters(user);
        }

        @GetMapping("/repeat/{user}")
        public Flux<String> repeat(@PathVariable("user") String user) {
            return catalog.letters(user).repeat(2);
        }

        @GetMapping("/offloaded/{user}")
        public Mono<String> offloaded(@PathVariable("user") String user) {
            return Mono.fromCallable(() -> catalog.blocking(user)).subscribeOn(Schedulers.boundedElastic());
        }
    }

    public static class Catalog {
        @RateLimit(name = "search", key = "#{#word}")
        public Mono<String> find(String word) {
            return Mono.just(word);
        }

        @RateLimit(name = "search", key = "#{#user}")
        public Flux<String> letters(String user) {
            return Flux.just("a", "b", "c");
        }

        @RateLimit(name = "search", key = "#{#user}")
        public String blocking(String user) {
            return "found";
        }
    }
}
