package io.github.tollgaters.spring.reactive;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.mvc.Servers;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

class ReactiveResultsInMvcTest {
    private static final BlockingQueue<String> BACKGROUND = new LinkedBlockingQueue<>();

    @Test
    void areLimitedByTheRequestOfTheServlet() throws Exception {
        try (Servers servers = new Servers()) {
            String service = servers.service("--limit", "1000/1h", "--caller-quotas").url();
            SpringApplication application = new SpringApplication(App.class);
            application.setWebApplicationType(WebApplicationType.SERVLET);
            String[] arguments = {
                "--server.port=0", "--spring.main.banner-mode=off", "--tollgate.timeout=5s", "--tollgate.url=" + service
            };
            try (ConfigurableApplicationContext context = application.run(arguments)) {
                String url = "http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port");
                assertThat(get(url + "/address", "alice").statusCode()).isEqualTo(200);
                assertThat(get(url + "/address", "alice").statusCode()).isEqualTo(429);
                assertThat(get(url + "/header", "alice").statusCode()).isEqualTo(200);
                HttpResponse<String> denied = get(url + "/header", "alice");
                assertThat(denied.statusCode()).isEqualTo(429);
                assertThat(denied.headers().firstValue("Retry-After")).isPresent();
                assertThat(denied.body()).contains("Quota exceeded");
                assertThat(get(url + "/header", "bob").statusCode()).isEqualTo(200);
                assertThat(get(url + "/background", "alice").body()).isEqualTo("later");
                assertThat(BACKGROUND.poll(20, TimeUnit.SECONDS)).isEqualTo("done");
                assertThat(get(url + "/background", "alice").body()).isEqualTo("later");
                assertThat(BACKGROUND.poll(20, TimeUnit.SECONDS)).contains("RateLimitExceededException");
            }
        }
    }

    private static HttpResponse<String> get(String url, String user) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).header("X-User", user).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({Api.class, Work.class})
    static class App {}

    public static class Work {
        @RateLimit(name = "work", scope = "IP", quotas = "1/1h")
        public Mono<String> work() {
            return Mono.just("done");
        }
    }

    @RestController
    public static class Api {
        private final Work work;

        Api(Work work) {
            this.work = work;
        }

        /** The work is subscribed to after the answer. */
        @GetMapping("/background")
        public String background() {
            work.work()
                    .delaySubscription(Duration.ofSeconds(1))
                    .subscribe(BACKGROUND::add, error -> BACKGROUND.add(error.toString()));
            return "later";
        }

        @GetMapping("/address")
        @RateLimit(name = "address", scope = "IP", quotas = "1/1h")
        public Mono<String> address() {
            return Mono.just("found");
        }

        @GetMapping("/header")
        @RateLimit(name = "header", key = "#{#request.getHeader('X-User')}", quotas = "1/1h")
        public Mono<String> header() {
            return Mono.just("found");
        }
    }
}
