package io.github.tollgaters.spring.gateway;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Services and Redis servers of a test, on free ports. They end with it. */
final class Servers implements AutoCloseable {
    private final List<Process> processes = new ArrayList<>();
    private final List<Path> files = new ArrayList<>();

    /** A running service. */
    record Service(String url, Process process) {
        void signal(String name) throws Exception {
            new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
        }
    }

    /** Starts {@code tollgate serve} with these arguments. */
    Service service(String... arguments) throws Exception {
        String binary = System.getenv("TOLLGATE_BINARY");
        if (binary == null || !Files.isExecutable(Path.of(binary))) {
            throw new IllegalStateException("no service: set TOLLGATE_BINARY, such as target/debug/tollgate");
        }
        List<String> command = new ArrayList<>(
                List.of(binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        processes.add(process);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("checks")) {
                return new Service(line.substring("checks".length()).trim(), process);
            }
        }
        throw new IllegalStateException("the service ended: " + command);
    }

    /** Starts a service with these policies. */
    Service policies(String yaml, String... arguments) throws Exception {
        Path file = Files.createTempFile("tollgate", ".yaml");
        files.add(file);
        Files.writeString(file, yaml);
        List<String> all = new ArrayList<>(List.of("--config", file.toString()));
        all.addAll(List.of(arguments));
        return service(all.toArray(String[]::new));
    }

    /** Starts a Redis server and returns its address. */
    String redis() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        Process process;
        try {
            process = new ProcessBuilder(
                            "redis-server", "--bind", "127.0.0.1", "--port", Integer.toString(port), "--save", "")
                    .redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .start();
        } catch (IOException missing) {
            throw new IllegalStateException("redis-server is missing: install the package redis-server", missing);
        }
        processes.add(process);
        long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (System.nanoTime() < end) {
            try {
                new Socket("127.0.0.1", port).close();
                return "redis://127.0.0.1:" + port;
            } catch (IOException early) {
                Thread.sleep(10);
            }
        }
        throw new IllegalStateException("redis-server does not answer");
    }

    @Override
    public void close() throws IOException {
        for (Process process : processes) {
            process.destroyForcibly().onExit().join();
        }
        for (Path file : files) {
            Files.deleteIfExists(file);
        }
    }
}
