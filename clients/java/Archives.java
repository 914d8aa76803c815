// java clients/java/Archives.java BUILD
//
// Looks into the archives that `mvn package` has left in BUILD/ARTIFACT/target: whether they have what a user needs,
// and nothing else.

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;

/** The archives of one module. */
public final class Archives {

    private static final String VERSION = "0.1.0";
    private static final List<String> ARTIFACTS =
            List.of("tollgate-client", "tollgate-spring-boot-starter", "tollgate-spring-cloud-gateway");
    private static final List<String> LICENSES = List.of("META-INF/LICENSE-APACHE", "META-INF/LICENSE-MIT");
    /** That of Java 17. */
    private static final int CLASS_VERSION = 61;
    /** `project.build.outputTimestamp` of pom.xml. */
    private static final LocalDateTime TIME = LocalDateTime.of(2026, 11, 1, 0, 0);
    private static final String IMPORTS =
            "META-INF/spring/org.springframework.boot.autoconfigure.AutoConfiguration.imports";
    private static final String METADATA = "META-INF/spring-configuration-metadata.json";

    private final String artifact;
    private final Path target;
    private final List<String> faults = new ArrayList<>();

    private Archives(String artifact, Path target) {
        this.artifact = artifact;
        this.target = target;
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 1) {
            throw new IllegalArgumentException("usage: java Archives.java BUILD");
        }
        List<String> faults = new ArrayList<>();
        for (String artifact : ARTIFACTS) {
            Archives archives = new Archives(artifact, Path.of(arguments[0], artifact, "target"));
            archives.lookIntoAll();
            faults.addAll(archives.faults);
        }
        faults.forEach(System.err::println);
        if (!faults.isEmpty()) {
            System.exit(1);
        }
    }

    private void lookIntoAll() throws IOException {
        Set<String> classes = new TreeSet<>();
        try (JarFile jar = open("")) {
            Set<String> names = lookInto(jar);
            expectLicenses(jar, names);
            names.stream().filter(name -> name.endsWith(".class")).forEach(classes::add);
            expect(!classes.isEmpty(), jar, "no class");
            for (String name : classes) {
                expect(versionOf(jar, name) == CLASS_VERSION, jar, name + " is not for Java 17");
            }
            Set<String> tests = filesIn(target.resolve("test-classes"));
            tests.retainAll(names);
            tests.removeIf(name -> name.startsWith("META-INF/"));
            expect(tests.isEmpty(), jar, "files of tests: " + tests);
            if (names.contains(IMPORTS)) {
                String text = text(jar, IMPORTS);
                List<String> configurations = text.lines().filter(line -> !line.isBlank()).toList();
                expect(!configurations.isEmpty(), jar, "imports without a configuration");
                for (String configuration : configurations) {
                    boolean exists = classes.contains(configuration.replace('.', '/') + ".class");
                    expect(exists, jar, "imports " + configuration + ", which it does not have");
                }
            }
            if (artifact.equals("tollgate-client")) {
                String pom = text(jar, "META-INF/maven/io.github.tollgate-rs/tollgate-client/pom.xml");
                long needed = pom.lines().filter(line -> line.contains("<dependency>")).count()
                        - pom.lines().filter(line -> line.contains("<scope>test</scope>")).count();
                expect(needed == 1, jar, needed + " dependencies instead of jackson-core alone");
            } else {
                expect(names.contains(IMPORTS), jar, "no " + IMPORTS);
            }
            if (artifact.equals("tollgate-spring-boot-starter")) {
                boolean describes = names.contains(METADATA) && text(jar, METADATA).contains("\"tollgate.url\"");
                expect(describes, jar, "no metadata of the property tollgate.url");
            }
        }
        try (JarFile jar = open("-sources")) {
            Set<String> names = lookInto(jar);
            expectLicenses(jar, names);
            for (String name : classes) {
                String source = name.replaceFirst("(\\$.*)?\\.class$", ".java");
                // Package-private classes may share a file.
                boolean exists = names.contains(source) || !name.contains("/") && names.contains("module-info.java");
                expect(exists, jar, "no " + source);
            }
        }
        try (JarFile jar = open("-javadoc")) {
            Set<String> names = lookInto(jar);
            expect(names.contains("index.html"), jar, "no index.html");
        }
    }

    private JarFile open(String classifier) throws IOException {
        return new JarFile(target.resolve(artifact + "-" + VERSION + classifier + ".jar").toFile());
    }

    /** Checks what every archive must have, and returns the names of its files. */
    private Set<String> lookInto(JarFile jar) {
        Set<String> names = new TreeSet<>();
        for (ZipEntry entry : Collections.list(jar.entries())) {
            if (!entry.isDirectory()) {
                names.add(entry.getName());
            }
            boolean isPinned = entry.getTimeLocal().equals(TIME);
            expect(isPinned, jar, entry.getName() + " is of " + entry.getTimeLocal() + ", not of " + TIME);
        }
        return names;
    }

    private void expectLicenses(JarFile jar, Set<String> names) {
        for (String license : LICENSES) {
            expect(names.contains(license), jar, "no " + license);
        }
    }

    private static int versionOf(JarFile jar, String name) throws IOException {
        byte[] bytes = jar.getInputStream(jar.getEntry(name)).readNBytes(8);
        return (bytes[6] & 0xff) << 8 | bytes[7] & 0xff;
    }

    private static String text(JarFile jar, String name) throws IOException {
        return new String(jar.getInputStream(jar.getEntry(name)).readAllBytes(), StandardCharsets.UTF_8);
    }

    private static Set<String> filesIn(Path folder) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            return paths.filter(Files::isRegularFile)
                    .map(path -> folder.relativize(path).toString())
                    .collect(Collectors.toCollection(TreeSet::new));
        } catch (UncheckedIOException error) {
            throw error.getCause();
        }
    }

    private void expect(boolean holds, JarFile jar, String fault) {
        if (!holds) {
            faults.add(Path.of(jar.getName()).getFileName() + ": " + fault);
        }
    }
}
