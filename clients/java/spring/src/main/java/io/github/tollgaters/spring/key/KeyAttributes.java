package io.github.tollgaters.spring.key;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.Principal;
import java.time.temporal.TemporalAccessor;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/** Attributes of requests, as the service takes them. Errors name the attribute and never its value. */
public final class KeyAttributes {

    private static final int LONGEST_KEY = 256;

    private KeyAttributes() {}

    /**
     * Returns attributes that the service takes. A text above 256 bytes becomes its SHA-256.
     *
     * @param place where the attributes come from, for errors
     * @param given texts, booleans, numbers or lists of texts
     * @return texts, booleans and lists of texts
     * @throws IllegalStateException if a value is missing, empty, of another type, or an {@code ip} that is no address
     */
    public static Map<String, Object> checked(String place, Map<?, ?> given) {
        if (given == null || given.isEmpty()) {
            throw new IllegalStateException(place + ": the key of a call is missing");
        }
        Map<String, Object> checked = new LinkedHashMap<>();
        given.forEach((name, value) -> {
            if (!(name instanceof String text) || text.isEmpty()) {
                throw new IllegalStateException(place + ": the name of an attribute must be a text");
            }
            checked.put(text, value(place + ": " + text, text, value));
        });
        return checked;
    }

    private static Object value(String place, String name, Object given) {
        Object value = present(given);
        if (value instanceof Boolean) {
            return value;
        }
        if (value instanceof Collection<?> || value instanceof Object[]) {
            Collection<?> entries = value instanceof Object[] array ? List.of(array) : (Collection<?>) value;
            if (entries.isEmpty()) {
                throw new IllegalStateException(place + ": the list is empty");
            }
            List<String> texts = new ArrayList<>(entries.size());
            entries.forEach(entry -> texts.add(fitting(text(place, entry))));
            return texts;
        }
        String text = text(place, value);
        return name.equals("ip") ? address(place, text) : fitting(text);
    }

    /**
     * Returns the text of a value that is a key, or a part of one.
     *
     * @param place where the value comes from, for errors
     * @param given a text, number, boolean, constant, UUID, date, address, a principal, whose name it is, or an Optional
     *     of one
     * @return the text, not empty
     * @throws IllegalStateException if the value is missing, empty or a list, or if it is another object
     */
    public static String text(String place, Object given) {
        Object value = present(given);
        if (value == null) {
            throw new IllegalStateException(place + ": the key of a call is null");
        }
        if (!hasText(value)) {
            throw new IllegalStateException(place + ": a " + value.getClass().getName()
                    + " is no key; return a text, a number, a constant, a date or a UUID");
        }
        String text = value instanceof Principal principal ? principal.getName()
                : value instanceof InetAddress address ? address.getHostAddress()
                : value.toString();
        if (text == null || text.isEmpty()) {
            throw new IllegalStateException(place + ": the key of a call is empty");
        }
        return text;
    }

    private static Object present(Object value) {
        return value instanceof Optional<?> optional ? optional.orElse(null) : value;
    }

    /** Other objects may have a text that differs in each process, or one with secrets, such as a session. */
    private static boolean hasText(Object value) {
        return value instanceof CharSequence
                || value instanceof Number
                || value instanceof Boolean
                || value instanceof Character
                || value instanceof Enum<?>
                || value instanceof UUID
                || value instanceof TemporalAccessor
                || value instanceof InetAddress
                || value instanceof Principal;
    }

    private static String fitting(String text) {
        boolean fits = text.length() <= LONGEST_KEY
                && utf8(text).filter(bytes -> bytes.remaining() <= LONGEST_KEY).isPresent();
        return fits ? text : "sha256:" + digest(text);
    }

    private static Optional<ByteBuffer> utf8(String text) {
        try {
            return Optional.of(StandardCharsets.UTF_8
                    .newEncoder()
                    .onMalformedInput(CodingErrorAction.REPORT)
                    .encode(CharBuffer.wrap(text)));
        } catch (CharacterCodingException e) {
            return Optional.empty();
        }
    }

    private static String digest(String text) {
        try {
            // A text that is no Unicode has no UTF-8; two of them must not have the same digest.
            byte[] bytes = utf8(text).map(KeyAttributes::bytes).orElseGet(() -> units(text));
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }

    private static byte[] units(String text) {
        ByteBuffer units = ByteBuffer.allocate(text.length() * Character.BYTES);
        units.asCharBuffer().put(text);
        return units.array();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static String address(String place, String text) {
        int zone = text.indexOf('%');
        String address = zone < 0 ? text : text.substring(0, zone);
        boolean valid = address.indexOf(':') >= 0 ? isIpv6(address) : isIpv4(address);
        if (!valid) {
            throw new IllegalStateException(place + ": it is no IP address");
        }
        return address;
    }

    private static boolean isIpv4(String address) {
        return address.matches("(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\\.(?!$)|$)){4}");
    }

    private static boolean isIpv6(String address) {
        if (!address.matches("[0-9a-fA-F:.]+")) {
            return false;
        }
        try {
            // A text with a colon is never looked up.
            InetAddress.getByName(address);
            return true;
        } catch (UnknownHostException e) {
            return false;
        }
    }
}
