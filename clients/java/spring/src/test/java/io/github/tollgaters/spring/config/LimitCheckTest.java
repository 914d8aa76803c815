package io.github.tollgaters.spring.config;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.client.testing.FakeTollgate;
import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.mvc.Servers;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** An app says at its start what is limited, and which limits the service refuses. */
@ExtendWith(OutputCaptureExtension.class)
class LimitCheckTest {

    private static final String SHOP = "@RateLimit of " + Shop.class.getName() + "#";

    private final Servers servers = new Servers();
    private ConfigurableApplicationContext app;

    @AfterEach
    void stop() {
        app.close();
        servers.close();
    }

    private void start(String service, String... arguments) {
        start(App.class, service, arguments);
    }

    private void start(Class<?> source, String service, String... arguments) {
        List<String> all = new ArrayList<>(List.of(
                "--server.port=0",
                "--spring.main.banner-mode=off",
                "--spring.main.web-application-type=servlet",
                "--tollgate.url=" + service));
        all.addAll(List.of(arguments));
        app = new SpringApplicationBuilder(source).run(all.toArray(String[]::new));
    }

    private static void eventually(CapturedOutput output, String text) throws InterruptedException {
        long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (!output.getAll().contains(text) && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        assertThat(output.getAll()).contains(text);
    }

    @Test
    void names_limits_that_the_service_refuses_and_what_happens_to_their_calls(CapturedOutput output) throws Exception {
        String url = servers.service("--limit", "5/1m", "--caller-quotas").url();
        start(url, "--tollgate.token=secret-token", "--tollgate.closed-names=login,serach",
                "--tollgate.filters[0].url=/login", "--tollgate.filters[0].name=login",
                "--tollgate.filters[0].quotas=5/1y");
        eventually(output, "tollgate.filters[0]: the limit [5/1y] does not work: all calls are refused. The service says: "
                + "status 400: ");
        assertThat(output.getAll())
                .contains("tollgate: asks " + url + "; limits 3 methods, 1 filter")
                .contains(SHOP + "wrong(): the limit [5/1x] is without effect: all calls are admitted. The service says: "
                        + "status 400: ")
                .contains("unknown unit")
                .contains("tollgate.closed-names: no @RateLimit and no filter of URLs has the name `serach`")
                .doesNotContain("the name `login`")
                .doesNotContain(SHOP + "right")
                .doesNotContain("secret-token");
    }

    @Test
    void says_that_the_service_takes_no_limits_in_calls(CapturedOutput output) throws Exception {
        start(servers.service("--limit", "5/1m").url());
        eventually(output, SHOP + "right(): the limit [5/1m] is without effect: all calls are admitted. The service says: "
                + "status 400: this service accepts no limits in a request");
    }

    @Test
    void a_service_that_is_away_is_one_line_and_the_app_starts(CapturedOutput output) throws Exception {
        start("http://127.0.0.1:1");
        eventually(output, "1 call had no decision of the service (1 connection)");
        Thread.sleep(500);
        assertThat(output.getAll()).containsOnlyOnce("had no decision").doesNotContain("without effect");
        String url = "http://127.0.0.1:" + app.getEnvironment().getProperty("local.server.port") + "/right";
        assertThat(HttpClient.newHttpClient()
                        .send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString())
                        .statusCode())
                .isEqualTo(200);
    }

    @Test
    void asks_nothing_if_limits_are_off_or_the_client_is_that_of_the_app(CapturedOutput output) throws Exception {
        start("http://127.0.0.1:1", "--tollgate.enabled=false");
        app.close();
        assertThat(output.getAll()).contains("no limit is enforced").doesNotContain("tollgate: asks");
        start(WithFake.class, "http://127.0.0.1:1");
        assertThat(output.getAll()).contains("tollgate: asks a client or a limiter of the app; limits 3 methods");
        Thread.sleep(500);
        assertThat(app.getBean(FakeTollgate.class).calls()).isEmpty();
        assertThat(output.getAll()).doesNotContain("had no decision");
    }

    /** Its methods have a limit that works, one that does not, and none of their own. */
    @RestController
    public static class Shop {
        @RateLimit(name = "right", quotas = "5/1m")
        @GetMapping("/right")
        public String right() {
            return "right";
        }

        @RateLimit(name = "wrong", quotas = "5/1x")
        public void wrong() {}

        @RateLimit("policy")
        public void policy() {}
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import(Shop.class)
    static class App {}

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import(Shop.class)
    static class WithFake {
        @Bean
        Tollgate tollgate() {
            return new FakeTollgate();
        }
    }
}
