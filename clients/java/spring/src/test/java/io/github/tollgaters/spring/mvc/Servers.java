package io.github.tollgaters.spring.mvc;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** Services and Redis servers on free ports, which end with the test. */
public final class Servers implements AutoCloseable {

    private final Deque<Process> processes = new ArrayDeque<>();
    private final List<Path> files = new ArrayList<>();
    private Process redis;

    /** A service that runs. */
    public record Service(String url, Process process) {

        /** Sends a signal, such as STOP. */
        public void signal(String name) throws IOException, InterruptedException {
            Servers.signal(process, name);
        }

        /** Ends the service at once. */
        public void kill() {
            process.destroyForcibly().onExit().join();
        }
    }

    /** Sends a signal. After STOP, a thread may still answer a request, so this waits until every thread has stopped. */
    public static void signal(Process process, String name) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
        Path threads = Path.of("/proc", Long.toString(process.pid()), "task");
        while (name.equals("STOP") && Files.isDirectory(threads) && !haveStopped(threads)) {
            Thread.sleep(5);
        }
    }

    private static boolean haveStopped(Path threads) throws IOException {
        try (DirectoryStream<Path> each = Files.newDirectoryStream(threads)) {
            for (Path thread : each) {
                String stat = Files.readString(thread.resolve("stat"));
                if (stat.charAt(stat.lastIndexOf(')') + 2) != 'T') {
                    return false;
                }
            }
        }
        return true;
    }

    /** Starts the service with these arguments. */
    public Service service(String... arguments) {
        String binary = System.getenv("TOLLGATE_BINARY");
        if (binary == null || !Files.isExecutable(Path.of(binary))) {
            throw new IllegalStateException("set TOLLGATE_BINARY to the built service, such as target/debug/tollgate");
        }
        List<String> command = new ArrayList<>(
                List.of(binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"));
        command.addAll(List.of(arguments));
        try {
            Process process = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            processes.push(process);
            BufferedReader lines =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("checks")) {
                    return new Service(line.substring("checks".length()).trim(), process);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        throw new IllegalStateException("the service ended: " + command);
    }

    /** Starts the service with a file of policies. */
    public Service policies(String yaml, String... arguments) {
        try {
            Path file = Files.createTempFile("tollgate", ".yaml");
            files.add(file);
            Files.writeString(file, yaml);
            List<String> all = new ArrayList<>(List.of("--config", file.toString()));
            all.addAll(List.of(arguments));
            return service(all.toArray(String[]::new));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Starts Redis and returns its address. */
    public String redis() throws InterruptedException {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        try {
            redis = new ProcessBuilder("redis-server", "--bind", "127.0.0.1", "--save", "", "--port", "" + port)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .start();
            processes.push(redis);
        } catch (IOException e) {
            throw new IllegalStateException("redis-server is missing; install the package redis-server", e);
        }
        long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (System.nanoTime() < end) {
            try {
                new Socket("127.0.0.1", port).close();
                return "redis://127.0.0.1:" + port;
            } catch (IOException tooEarly) {
                Thread.sleep(10);
            }
        }
        throw new IllegalStateException("redis-server does not answer");
    }

    /** Ends Redis at once. */
    public void killRedis() {
        redis.destroyForcibly().onExit().join();
    }

    @Override
    public void close() {
        processes.forEach(process -> process.destroyForcibly().onExit().join());
        for (Path file : files) {
            try {
                Files.deleteIfExists(file);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
