package io.github.tollgaters.spring.filter;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Collection;
import java.util.HexFormat;
import java.util.UUID;
import java.util.regex.Pattern;

/** Values of attributes that the service takes: what it refuses, a client that is open admits without counting. */
final class AttributeValues {

    /** A longer text is sent as its digest. */
    private static final int LONGEST = 256;
    private static final Pattern HALF_OF_A_PAIR = Pattern.compile("\\p{Cs}");
    private static final Pattern ZONE = Pattern.compile("^([^%]*:[^%]*)%.+$");
    private static final Pattern IPV4 =
            Pattern.compile("(?:(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)(?:\\.(?!$)|$)){4}", Pattern.DOTALL);
    private static final Pattern IPV6 = Pattern.compile("[0-9a-fA-F:.]*:[0-9a-fA-F:.]*");

    private AttributeValues() {
    }

    /** Returns the value to send for a value of an expression. */
    static Object sendable(Object value, String attribute, String property) {
        if (attribute.equals("ip")) {
            return address(value, property);
        }
        if (value instanceof Boolean) {
            return value;
        }
        if (value instanceof Collection<?> elements) {
            if (elements.isEmpty()) {
                throw new FilterException(property, "is an empty list, so nobody can be counted", null);
            }
            return elements.stream().map(element -> text(element, property)).toList();
        }
        return text(value, property);
    }

    /** Returns an address without its zone, which names an interface of this host. */
    static String address(Object value, String property) {
        String address = value instanceof String text ? ZONE.matcher(text).replaceFirst("$1") : "";
        if (!IPV4.matcher(address).matches() && !isIpv6(address)) {
            // A key belongs in no log, so the message does not repeat it.
            throw new FilterException(property, "is no IP address", null);
        }
        return address;
    }

    private static String text(Object value, String property) {
        if (!(value instanceof CharSequence || value instanceof Number || value instanceof Character
                || value instanceof UUID || value instanceof Enum)) {
            throw new FilterException(property,
                    "is " + (value == null ? "null" : "a " + value.getClass().getName()) + ", not a text", null);
        }
        String text = value.toString();
        if (text.isEmpty()) {
            throw new FilterException(property, "is an empty text, so nobody can be counted", null);
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length <= LONGEST && !HALF_OF_A_PAIR.matcher(text).find()) {
            return text;
        }
        return "sha256:" + digest(HALF_OF_A_PAIR.matcher(text).replaceAll("\uFFFD"));
    }

    private static String digest(String text) {
        try {
            MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
            return HexFormat.of().formatHex(sha256.digest(text.getBytes(StandardCharsets.UTF_8)));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every Java has SHA-256", error);
        }
    }

    private static boolean isIpv6(String text) {
        if (!IPV6.matcher(text).matches()) {
            return false;
        }
        try {
            // In brackets, a text is an address or an error, but never looked up as a name.
            InetAddress.getByName("[" + text + "]");
            return true;
        } catch (UnknownHostException error) {
            return false;
        }
    }
}
