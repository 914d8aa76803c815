package io.github.tollgaters.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.Base64;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Plays TLS with the real service. */
class TlsTest {
    private static final Map<String, String> ALICE = Map.of("user", "alice");
    private static final char[] PASSWORD = "password".toCharArray();

    /** The certificate and the key of a server, as files, and a context that trusts it. */
    private record Identity(Path certificate, Path key, SSLContext trusting) {
    }

    private static Identity identity(Path folder, String alternativeName) throws Exception {
        Path store = folder.resolve("store.p12");
        Process keytool = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair",
                "-alias", "server", "-keyalg", "RSA", "-dname", "CN=test", "-ext", "SAN=" + alternativeName, "-storetype", "PKCS12",
                "-keystore", store.toString(), "-storepass", new String(PASSWORD)).redirectErrorStream(true).start();
        String output = new String(keytool.getInputStream().readAllBytes());
        assertEquals(0, keytool.waitFor(), output);
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            keys.load(in, PASSWORD);
        }
        Path certificate = pem(folder, "CERTIFICATE", keys.getCertificate("server").getEncoded());
        Path key = pem(folder, "PRIVATE KEY", keys.getKey("server", PASSWORD).getEncoded());
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        trusted.setCertificateEntry("server", keys.getCertificate("server"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return new Identity(certificate, key, context);
    }

    private static Path pem(Path folder, String label, byte[] bytes) throws Exception {
        String text = "-----BEGIN " + label + "-----\n" + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes)
                + "\n-----END " + label + "-----\n";
        return Files.writeString(folder.resolve(label.toLowerCase(Locale.ROOT).replace(' ', '-') + ".pem"), text);
    }

    private static RealServer service(Identity identity) throws Exception {
        return RealServer.service("--limit", "2/1m@first_hit", "--key", "user", "--tls-cert", identity.certificate().toString(),
                "--tls-key", identity.key().toString());
    }

    private static TollgateBuilder builder(RealServer service) {
        String port = service.address().replaceAll(".*:", "");
        return Tollgate.builder().url("https://localhost:" + port).timeout(Duration.ofSeconds(10)).logger(line -> {
        });
    }

    @Test
    void keepsAConnectionToAServerOfTheRightName(@TempDir Path folder) throws Exception {
        Identity identity = identity(folder, "dns:localhost");
        try (RealServer service = service(identity); Tollgate tollgate = builder(service).sslContext(identity.trusting()).build()) {
            assertTrue(tollgate.check("search", ALICE).allowed());
            assertTrue(tollgate.checkAsync(CheckRequest.of("search", ALICE)).get().allowed());
            assertFalse(tollgate.check("search", ALICE).allowed());
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @Test
    void refusesAServerOfAnotherName(@TempDir Path folder) throws Exception {
        Identity identity = identity(folder, "dns:other.example");
        try (RealServer service = service(identity); Tollgate tollgate = builder(service).sslContext(identity.trusting()).build()) {
            assertEquals(Optional.of(FailureKind.CONNECTION), tollgate.check("search", ALICE).failure());
        }
    }

    @Test
    void refusesACertificateThatNobodyTrusts(@TempDir Path folder) throws Exception {
        Identity identity = identity(folder, "dns:localhost");
        try (RealServer service = service(identity); Tollgate tollgate = builder(service).build()) {
            assertEquals(Optional.of(FailureKind.CONNECTION), tollgate.check("search", ALICE).failure());
        }
    }

    @Test
    void aServerThatIsSilentInTheHandshakeEndsTheCallAtItsTimeout() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
                Tollgate tollgate = Tollgate.builder().url("https://127.0.0.1:" + silent.getLocalPort())
                        .timeout(Duration.ofSeconds(2)).logger(line -> {
                        }).build()) {
            long start = System.nanoTime();
            assertEquals(Optional.of(FailureKind.TIMEOUT), tollgate.check("search", ALICE).failure());
            long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
            assertTrue(took >= 1_990 && took < 4_000, "took " + took + " ms");
        }
    }
}
