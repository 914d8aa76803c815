package io.github.tollgaters.apps;

import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;

/**
 * The settings that an app of {@code cargo xtask prove clients} takes from its environment.
 * xtask/src/prove_clients/apps.rs says what an app answers.
 */
final class AppSettings {

    /** What every path but {@code /failures} answers. */
    static final Map<String, Boolean> OK = Map.of("ok", true);

    static final URI SERVICE = URI.create(System.getenv("TOLLGATE_URL"));
    static final URI REDIS = URI.create(System.getenv("REDIS_URL"));

    /** Properties without which the gateway, which all apps have on their class path, starts in each of them. */
    static final List<String> NO_GATEWAY = List.of(
            "spring.cloud.gateway.server.webflux.enabled=false",
            "spring.cloud.gateway.server.webflux.redis.enabled=false");

    private AppSettings() {}

    /** Runs an app with these settings, and properties of its own. */
    static void run(Class<?> app, WebApplicationType type, List<String> properties) {
        String[] listen = System.getenv("LISTEN").split(":");
        long millis = Math.round(Double.parseDouble(System.getenv("TIMEOUT")) * 1000);
        Stream<String> all = Stream.of(
                "server.address=" + listen[0],
                "server.port=" + listen[1],
                "tollgate.url=" + SERVICE,
                "tollgate.timeout=" + millis + "ms",
                "tollgate.include-http-headers=true",
                "spring.data.redis.url=" + REDIS,
                "spring.main.banner-mode=off",
                "logging.level.root=warn");
        SpringApplication application = new SpringApplication(app);
        application.setWebApplicationType(type);
        application.run(Stream.concat(all, properties.stream()).map(it -> "--" + it).toArray(String[]::new));
    }
}
