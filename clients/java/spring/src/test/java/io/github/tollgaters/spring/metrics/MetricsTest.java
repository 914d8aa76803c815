package io.github.tollgaters.spring.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.spring.filter.RunningService;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.search.Search;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

class MetricsTest {

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @RestController
    static class App {

        @GetMapping("/login")
        String login() {
            return "handler";
        }
    }

    private static ConfigurableApplicationContext start(String url, String... properties) {
        Map<String, Object> all = new LinkedHashMap<>(Map.of("server.port", 0, "spring.main.banner-mode", "off",
                "logging.level.root", "off", "spring.main.web-application-type", "servlet", "tollgate.url", url,
                "tollgate.timeout", "5s", "tollgate.filters[0].url", "/login", "tollgate.filters[0].name", "login",
                "tollgate.filters[0].quotas", "2/1h"));
        all.put("tollgate.filters[0].key", "secret-" + UUID.randomUUID());
        for (String property : properties) {
            all.put(property.split("=")[0], property.split("=")[1]);
        }
        SpringApplication app = new SpringApplication(App.class);
        app.setDefaultProperties(all);
        return app.run();
    }

    private static void get(ConfigurableApplicationContext app, int times) throws Exception {
        int port = app.getEnvironment().getRequiredProperty("local.server.port", Integer.class);
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/login")).build();
        for (int time = 0; time < times; time++) {
            HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.discarding());
        }
    }

    private static Search meter(ConfigurableApplicationContext app, String name, String... tags) {
        return app.getBean(MeterRegistry.class).find(name).tags(tags);
    }

    @Test
    void counts_decisions_under_both_names() throws Exception {
        try (RunningService service = RunningService.start(
                        "  - { name: other, match: { action: other }, key: [ip], quotas: [1/1h] }");
                ConfigurableApplicationContext app = start(service.url())) {
            get(app, 3);
            assertThat(meter(app, "tollgate.client.requests", "name", "login", "outcome", "allowed").counter().count())
                    .isEqualTo(2);
            assertThat(meter(app, "tollgate.client.requests", "name", "login", "outcome", "denied").counter().count())
                    .isEqualTo(1);
            assertThat(meter(app, "tollgate.client.duration", "name", "login").timer().count()).isEqualTo(3);
            String[] alias = {"name", "login", "scope", "GLOBAL"};
            assertThat(meter(app, "ratelimiter.requests", alias).tag("outcome", "allowed").counter().count()).isEqualTo(2);
            assertThat(meter(app, "ratelimiter.requests", alias).tag("outcome", "blocked").counter().count()).isEqualTo(1);
            assertThat(meter(app, "ratelimiter.evaluate.latency", alias).timer().count()).isEqualTo(3);
            assertThat(meter(app, "tollgate.client.failures").functionCounters()).hasSize(5)
                    .allMatch(counter -> counter.count() == 0);
            assertThat(app.getBean(MeterRegistry.class).getMeters())
                    .noneMatch(meter -> meter.getId().toString().contains("secret"));
        }
    }

    @Test
    void counts_calls_without_the_service() throws Exception {
        try (ConfigurableApplicationContext app = start("http://127.0.0.1:1")) {
            get(app, 2);
            assertThat(meter(app, "tollgate.client.requests", "name", "login", "outcome", "failed_open").counter().count())
                    .isEqualTo(2);
            assertThat(meter(app, "ratelimiter.requests", "outcome", "allowed").counter().count()).isEqualTo(2);
            assertThat(meter(app, "tollgate.client.failures", "kind", "connection").functionCounter().count())
                    .isEqualTo(2);
        }
        try (ConfigurableApplicationContext app = start("http://127.0.0.1:1", "tollgate.fail-open=false")) {
            get(app, 2);
            assertThat(meter(app, "tollgate.client.requests", "outcome", "failed_closed").counter().count()).isEqualTo(2);
            assertThat(meter(app, "ratelimiter.errors", "name", "login", "scope", "GLOBAL", "exception",
                    "RateLimiterBackendException").counter().count()).isEqualTo(2);
            assertThat(meter(app, "ratelimiter.requests").counters()).isEmpty();
        }
    }

    @Test
    void counts_nothing_if_metrics_are_switched_off() throws Exception {
        for (String property : List.of("tollgate.metrics-enabled=false", "tollgate.enabled=false")) {
            try (ConfigurableApplicationContext app = start("http://127.0.0.1:1", property)) {
                get(app, 1);
                assertThat(app.getBean(MeterRegistry.class).getMeters())
                        .noneMatch(meter -> meter.getId().getName().startsWith("tollgate")
                                || meter.getId().getName().startsWith("ratelimiter"));
            }
        }
    }
}
