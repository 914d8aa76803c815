package io.github.tollgaters.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A program that tests start: the service that TOLLGATE_BINARY names, or a Redis. It ends with its test. */
final class RealServer implements AutoCloseable {
    private final Process process;
    private final String address;

    private RealServer(Process process, String address) {
        this.process = process;
        this.address = address;
    }

    /** Starts the service on free ports. */
    static RealServer service(String... arguments) throws Exception {
        return serviceAt("127.0.0.1:0", arguments);
    }

    static RealServer serviceAt(String listen, String... arguments) throws Exception {
        String binary = System.getenv("TOLLGATE_BINARY");
        if (binary == null || !Files.isExecutable(Path.of(binary))) {
            throw new AssertionError("TOLLGATE_BINARY names no service: build one with `cargo build`, and set it");
        }
        List<String> command = new ArrayList<>(List.of(binary, "serve", "--listen", listen, "--admin-listen", "127.0.0.1:0"));
        command.addAll(List.of(arguments));
        return start(command, Pattern.compile("checks +(\\S+)"));
    }

    /** Starts a Redis on a free port; its address is a URL. */
    static RealServer redis() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        List<String> command = List.of("redis-server", "--port", String.valueOf(port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "no");
        RealServer redis = start(command, Pattern.compile("(Ready to accept connections)"));
        return new RealServer(redis.process, "redis://127.0.0.1:" + port);
    }

    private static RealServer start(List<String> command, Pattern ready) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        CompletableFuture<String> address = new CompletableFuture<>();
        Thread reader = new Thread(() -> read(process, ready, address));
        reader.setDaemon(true);
        reader.start();
        try {
            return new RealServer(process, address.get(20, TimeUnit.SECONDS));
        } catch (Exception late) {
            process.destroyForcibly();
            throw late;
        }
    }

    private static void read(Process process, Pattern ready, CompletableFuture<String> address) {
        StringBuilder output = new StringBuilder();
        try (BufferedReader lines = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                output.append(line).append('\n');
                Matcher matcher = ready.matcher(line);
                if (matcher.find()) {
                    address.complete(matcher.group(1));
                }
            }
        } catch (IOException ended) {
            // With its process.
        }
        address.completeExceptionally(new AssertionError("the program ended:\n" + output));
    }

    String address() {
        return address;
    }

    /** Returns a client that has time: a test may run on a busy machine. */
    Tollgate client() {
        return Tollgate.builder().url(address).timeout(Duration.ofSeconds(10)).build();
    }

    /** Kills the program. */
    void kill() {
        process.destroyForcibly().onExit().join();
    }

    @Override
    public void close() {
        kill();
    }
}
