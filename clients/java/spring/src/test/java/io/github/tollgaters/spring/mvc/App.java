package io.github.tollgaters.spring.mvc;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** An app in a real Tomcat on a free port. */
final class App implements AutoCloseable {

    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    private final ConfigurableApplicationContext context;
    private final String url;

    /** Starts an app with the service at an address, and further properties as {@code name=value}. */
    App(Class<?> source, String service, String... properties) {
        context = new SpringApplicationBuilder(source)
                .properties(
                        "server.port=0",
                        "spring.main.web-application-type=servlet",
                        "spring.main.banner-mode=off",
                        "logging.level.root=warn",
                        "tollgate.timeout=20s",
                        "tollgate.url=" + service)
                .run(Arrays.stream(properties).map(property -> "--" + property).toArray(String[]::new));
        url = "http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port");
    }

    ConfigurableApplicationContext context() {
        return context;
    }

    HttpResponse<String> get(String path, String... headers) {
        return getAsync(path, headers).join();
    }

    int status(String path, String... headers) {
        return get(path, headers).statusCode();
    }

    /** Sends requests one after another and returns their statuses. */
    List<Integer> statuses(int count, String path, String... headers) {
        List<Integer> statuses = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            statuses.add(status(path, headers));
        }
        return statuses;
    }

    CompletableFuture<HttpResponse<String>> getAsync(String path, String... headers) {
        HttpRequest.Builder request =
                HttpRequest.newBuilder(URI.create(url + path)).timeout(Duration.ofSeconds(60));
        if (headers.length > 0) {
            request.headers(headers);
        }
        return CLIENT.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString());
    }


    @Override
    public void close() {
        context.close();
    }
}
