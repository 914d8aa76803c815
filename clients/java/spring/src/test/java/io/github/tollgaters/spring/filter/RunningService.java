package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.mvc.Servers;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The real service, on a free port. */
public final class RunningService implements AutoCloseable {

    private final Process process;
    private final String url;
    private final Path policies;

    private RunningService(Process process, String url, Path policies) {
        this.process = process;
        this.url = url;
        this.policies = policies;
    }

    /** Starts the service of TOLLGATE_BINARY with policies, and with limits in the call. */
    public static RunningService start(String... policies) throws IOException {
        String binary = System.getenv("TOLLGATE_BINARY");
        if (binary == null || !Files.isExecutable(Path.of(binary))) {
            throw new IllegalStateException("no service: set TOLLGATE_BINARY, such as target/debug/tollgate");
        }
        Path file = Files.createTempFile("tollgate", ".yaml");
        Files.writeString(file, "policies:\n" + String.join("\n", policies) + "\n");
        Process process = new ProcessBuilder(List.of(binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen",
                "127.0.0.1:0", "--caller-quotas", "--config", file.toString()))
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        BufferedReader lines = process.inputReader();
        List<String> seen = new ArrayList<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("checks")) {
                return new RunningService(process, line.substring("checks".length()).strip(), file);
            }
            seen.add(line);
        }
        throw new IllegalStateException("the service ended: " + seen);
    }

    public String url() {
        return url;
    }

    /** Sends a signal, such as STOP. */
    public void signal(String name) throws Exception {
        Servers.signal(process, name);
    }

    @Override
    public void close() throws IOException {
        process.destroyForcibly().onExit().join();
        Files.deleteIfExists(policies);
    }
}
