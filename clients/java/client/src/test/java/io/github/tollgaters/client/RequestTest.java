package io.github.tollgaters.client;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The bounds of settings and requests, and what they print. */
class RequestTest {
    private static final Map<String, String> ALICE = Map.of("user", "alice");

    private static String refused(Executable wrong) {
        return assertThrows(IllegalArgumentException.class, wrong).getMessage();
    }

    @Test
    void boundsTextsInBytesOfUtf8() {
        String longest = "ä".repeat(512);
        assertDoesNotThrow(() -> CheckRequest.of(longest, Map.of("user", longest)));
        assertTrue(refused(() -> CheckRequest.of(longest + "a", ALICE)).contains("1025 bytes"));
        assertTrue(refused(() -> CheckRequest.of("a", Map.of("user", longest + "a"))).contains("\"user\""));
        assertEquals(4, Text.utf8Length("😀"));
        assertEquals(3, Text.utf8Length("€"));
        String surrogate = "\ud83d";
        for (String half : List.of(surrogate, surrogate + "a", "\ude00" + surrogate, "a\ude00")) {
            assertTrue(refused(() -> CheckRequest.of(half, ALICE)).contains("surrogate"));
            assertTrue(refused(() -> CheckRequest.of("a", Map.of("user", half))).contains("surrogate"));
            assertTrue(refused(() -> CheckRequest.of("a", Map.of(half, "b"))).contains("surrogate"));
            assertTrue(refused(() -> CheckRequest.of("a", Map.of("list", List.of(half)))).contains("surrogate"));
        }
    }

    @Test
    void refusesAttributesOfOtherTypes() {
        assertTrue(refused(() -> CheckRequest.of("a", Map.of("n", 1))).contains("\"n\" is a java.lang.Integer"));
        Map<String, Object> none = new HashMap<>();
        none.put("n", null);
        assertTrue(refused(() -> CheckRequest.of("a", none)).contains("\"n\" is null"));
        assertTrue(refused(() -> CheckRequest.of("a", null)).contains("null"));
        assertTrue(refused(() -> CheckRequest.of("a", Map.of("n", Arrays.asList("a", null)))).contains("\"n\""));
        assertTrue(refused(() -> CheckRequest.of("a", Map.of("action", "b"))).contains("action"));
        refused(() -> CheckRequest.of("a", Map.of("n", Collections.nCopies(65, "a"))));
        refused(() -> CheckRequest.of("a", Map.of("", "a")));
        refused(() -> CheckRequest.of("a", Map.of("😀".repeat(129), "a")));
        assertDoesNotThrow(() -> CheckRequest.of("a", Map.of("😀".repeat(128), "a", "flag", true, "list", List.of("x"))));
        Map<String, String> many = new HashMap<>();
        for (int index = 0; index < 64; index++) {
            many.put("a" + index, "b");
        }
        refused(() -> CheckRequest.of("a", many));
        assertDoesNotThrow(() -> CountRequest.add("a", many));
        many.put("one more", "b");
        refused(() -> CountRequest.add("a", many));
        refused(() -> CountRequest.add("a", Map.of()));
        many.keySet().removeIf(name -> name.length() > 3 || name.equals("a0"));
        assertDoesNotThrow(() -> CheckRequest.of("a", many));
    }

    @Test
    void boundsNumbersAndTimes() {
        CheckRequest check = CheckRequest.of("a", ALICE);
        refused(() -> check.cost(-1));
        refused(() -> check.cost(1L << 32));
        assertEquals((1L << 32) - 1, check.cost((1L << 32) - 1).cost());
        refused(() -> check.quotas(List.of()));
        refused(() -> check.quotas(Collections.nCopies(9, "5/1m")));
        ReservationRequest reservation = ReservationRequest.of("a", ALICE);
        refused(() -> reservation.units(-1));
        refused(() -> reservation.units(1001));
        refused(() -> reservation.expiresAfter(Duration.ZERO));
        refused(() -> reservation.expiresAfter(Duration.ofNanos(1_500_000)));
        refused(() -> reservation.expiresAfter(Duration.ofHours(1).plusMillis(1)));
        refused(() -> CountRequest.reset("a", ALICE).cost(2));
        refused(() -> CountRequest.add("a", ALICE).used(2));
        refused(() -> CountRequest.set("a", ALICE).used(-1));
        refused(() -> CountRequest.add("a", ALICE).block(Duration.ZERO));
        refused(() -> CountRequest.add("a", ALICE).block(Duration.ofDays(3_653).plusMillis(1)));
        refused(() -> Tollgate.builder().timeout(Duration.ZERO));
        refused(() -> Tollgate.builder().timeout(Duration.ofMillis(60_001)));
        refused(() -> Tollgate.builder().maxConnections(0));
        refused(() -> Tollgate.builder().token("").build());
    }

    @Test
    void refusesRequestsThatAreNotWhole() {
        try (Tollgate tollgate = Tollgate.builder().url("http://127.0.0.1:1").build()) {
            assertTrue(refused(() -> tollgate.countAsync(CountRequest.add("a", ALICE))).contains("quotas or a window"));
            refused(() -> tollgate.count(CountRequest.add("a", ALICE).quotas(List.of("5/1m")).window("1m")));
            refused(() -> tollgate.count(CountRequest.set("a", ALICE).quotas(List.of("5/1m"))));
            refused(() -> tollgate.count(CountRequest.add("a", ALICE).window("1m").block(Duration.ofSeconds(30))));
            CountRequest subtract = CountRequest.subtract("a", ALICE).quotas(List.of("5/1m"));
            refused(() -> tollgate.count(subtract.block(Duration.ofSeconds(30))));
            refused(() -> tollgate.check(CheckRequest.of("a", ALICE).onStoreFailure(OnFailure.CLOSED)));
            refused(() -> tollgate.check(CheckRequest.of("a", Map.of()).quotas(List.of("5/1m"))));
            refused(() -> tollgate.await(CheckRequest.of("a", ALICE), Duration.ofSeconds(-1)));
            Map<String, Object> large = new HashMap<>();
            for (int index = 0; index < 63; index++) {
                large.put("a" + index, Collections.nCopies(2, "b".repeat(1024)));
            }
            assertTrue(refused(() -> tollgate.checkAsync(CheckRequest.of("a", large))).contains("more than 65536"));
            assertEquals(Map.of(), tollgate.failures());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = { "", "http://", "http://127.0.0.1", "http://256.1.1.1:80", "http://127.1:80", "http://0x7f.1:80",
        "http://1234:80", "http://[::1:80", "http://[::g]:80", "http://::1:80", "http://-a:80", "http://a-:80",
        "http://a:80//", "http:/a:80", "http://a:00000080", "unix:a", "unix://a", "unix:/a\0", "http://\u212a:80" })
    void refusesAWrongAddress(String url) {
        String message = refused(() -> Tollgate.builder().url(url).build());
        assertTrue(message.startsWith("the URL ") && message.contains("unix:/absolute/path"), message);
    }

    @Test
    void refusesAPathThatIsTooLongForASocket() {
        assertDoesNotThrow(() -> Address.parse("unix:/" + "a".repeat(102), "it"));
        refused(() -> Address.parse("unix:/" + "a".repeat(103), "it"));
        refused(() -> Address.parse("unix:/" + "ä".repeat(52), "it"));
    }

    @Test
    void writesWhatIsNotTheDefault() {
        CountRequest count = CountRequest.add("a", ALICE).quotas(List.of("5/1m")).block(Duration.ofSeconds(30));
        assertEquals("{\"policy\":\"a\",\"attributes\":{\"user\":\"alice\"},\"quotas\":[\"5/1m\"],\"block\":\"30s\"}",
                new String(Bodies.count(count, OnFailure.OPEN), StandardCharsets.UTF_8));
        CheckRequest check = CheckRequest.of("a", ALICE).quotas(List.of("5/1m"));
        assertEquals("{\"attributes\":{\"user\":\"alice\"},\"policy\":\"a\",\"quotas\":[\"5/1m\"],\"on_store_failure\":\"closed\"}",
                new String(Bodies.check(check, OnFailure.CLOSED), StandardCharsets.UTF_8));
        ReservationRequest reservation = ReservationRequest.of("a", ALICE).expiresAfter(Duration.ofMillis(1_500)).units(0);
        assertEquals("{\"attributes\":{\"action\":\"a\",\"user\":\"alice\"},\"units\":0,\"expires_after\":\"1500ms\",\"id\":\"1\"}",
                new String(Bodies.reservation(reservation, "1"), StandardCharsets.UTF_8));
    }

    @Test
    void printsNoTokenAndNoKeys() {
        Map<String, Object> attributes = Map.of("user", "alice-key", "roles", List.of("role-key"));
        TollgateBuilder builder = Tollgate.builder().url("http://localhost:1").token("tg_secret").logger(line -> {
        });
        try (Tollgate tollgate = builder.build()) {
            Reservation reservation = tollgate.reserve(ReservationRequest.of("a", attributes));
            Hold hold = tollgate.hold(ReservationRequest.of("a", attributes));
            Stream<Object> all = Stream.of(builder, tollgate, reservation, hold, CheckRequest.of("a", attributes),
                    ReservationRequest.of("a", attributes), CountRequest.add("a", attributes), Attributes.ofCheck(attributes),
                    new Transport.Request("/v1/check", Map.of("Authorization", "Bearer tg_secret"), "alice-key".getBytes(StandardCharsets.UTF_8)));
            List<String> printed = all.map(Object::toString).toList();
            assertTrue(printed.get(1).contains("http://localhost:1"), printed.toString());
            for (String secret : List.of("secret", "-key")) {
                assertFalse(printed.toString().contains(secret), printed.toString());
            }
        }
    }

    @Test
    void masksValuesInADetail() {
        assertEquals("status 400: user *** of ***", Masking.masked("status 400: user alice of acme", List.of("alice", "acme")));
        assertEquals("*** and ***", Masking.masked("alicesmith and alice", List.of("alice", "alicesmith")));
        assertEquals("a cat sat on ***", Masking.masked("a cat sat on at", List.of("at")));
        assertEquals("\"***\"", Masking.masked("\"a\\\"b\\nc\"", List.of("a\"b\nc")));
        assertEquals("a b", Masking.masked("a\nb", List.of()));
        assertEquals(300, Masking.masked("x".repeat(2_000_000), List.of("alice")).length());
        String crowd = "k".repeat(1024);
        assertFalse(Masking.masked(crowd.repeat(100), List.of(crowd)).contains("k"));
        assertEquals("***", Masking.masked("äö", List.of("äö")));
        assertEquals("xé", Masking.masked("xé", List.of("x")));
    }

    @Test
    void hasTheVersionOfItsPackage() throws Exception {
        String pom = Files.readString(Path.of("pom.xml"));
        assertTrue(pom.contains("<version>" + Version.VERSION + "</version>"));
    }
}
