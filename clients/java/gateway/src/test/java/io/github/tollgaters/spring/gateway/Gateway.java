package io.github.tollgaters.spring.gateway;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.ConfigurableApplicationContext;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** A gateway on a free port, in front of a server that answers every request with its path. */
final class Gateway implements AutoCloseable {
    private static final HttpClient HTTP =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    final ConfigurableApplicationContext context;
    final AtomicInteger passed = new AtomicInteger();
    private final DisposableServer upstream;
    private final Path file;
    private final String url;

    /** Starts a gateway with this {@code application.yaml}, in which {@code UPSTREAM} is the server behind it. */
    Gateway(String service, String yaml, Class<?> app, String... arguments) throws Exception {
        upstream = HttpServer.create()
                .host("127.0.0.1")
                .port(0)
                .handle((request, response) -> {
                    passed.incrementAndGet();
                    return response.sendString(Mono.just(request.uri()));
                })
                .bindNow();
        file = Files.createTempFile("gateway", ".yaml");
        Files.writeString(file, yaml.replace("UPSTREAM", "http://127.0.0.1:" + upstream.port()));
        List<String> all = new ArrayList<>(List.of(
                "--server.port=0",
                "--server.address=127.0.0.1",
                "--spring.config.location=file:" + file,
                "--tollgate.url=" + service,
                "--spring.main.banner-mode=off",
                "--spring.cloud.gateway.server.webflux.redis.enabled=false"));
        all.addAll(List.of(arguments));
        if (all.stream().noneMatch(argument -> argument.startsWith("--tollgate.timeout="))) {
            all.add("--tollgate.timeout=5s");
        }
        SpringApplication application = new SpringApplication(app);
        application.setWebApplicationType(WebApplicationType.REACTIVE);
        try {
            context = application.run(all.toArray(String[]::new));
        } catch (RuntimeException failed) {
            upstream.disposeNow();
            Files.delete(file);
            throw failed;
        }
        url = "http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port");
    }

    HttpResponse<String> get(String path, String... headers) throws Exception {
        return HTTP.send(request(path, headers), HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8));
    }

    CompletableFuture<Integer> status(String path, String... headers) {
        return HTTP.sendAsync(request(path, headers), HttpResponse.BodyHandlers.discarding())
                .thenApply(HttpResponse::statusCode);
    }

    private HttpRequest request(String path, String... headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).timeout(Duration.ofSeconds(30));
        if (headers.length > 0) {
            request.headers(headers);
        }
        return request.build();
    }

    @Override
    public void close() throws IOException {
        context.close();
        upstream.disposeNow();
        Files.deleteIfExists(file);
    }
}
