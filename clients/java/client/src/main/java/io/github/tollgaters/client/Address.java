package io.github.tollgaters.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where the service listens.
 *
 * @param scheme {@code http}, {@code https} or {@code unix}
 * @param host a name or an address, without brackets; of a unix socket, the path
 * @param port of a unix socket, 0
 */
record Address(String scheme, String host, int port) {
    /** The longest path that sun_path of Linux and macOS can hold, in bytes. */
    private static final int MAX_UNIX_PATH = 103;
    private static final String UNIX = "unix";
    private static final String FORMS = "http://HOST:PORT, https://HOST:PORT or unix:/absolute/path";
    private static final Pattern URL = Pattern.compile("(?i)(https?)://([^/?#@]*)(/?)");
    private static final Pattern AUTHORITY = Pattern.compile("(\\[[0-9a-fA-F:.]+]|[^\\[\\]:]*)(?::([0-9]{1,5}))?");
    /** Names whose labels neither begin nor end with a hyphen. */
    private static final Pattern NAME = Pattern.compile("(?i)(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\\.?");
    private static final Pattern NUMERIC = Pattern.compile("(?:.*\\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)\\.?");
    private static final Pattern BYTE = Pattern.compile("0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5]");

    /** Reads an address, or says what is wrong with what, such as a URL. A password in it is not repeated. */
    static Address parse(String text, String what) {
        if (text.startsWith("unix:")) {
            return new Address(UNIX, path(text.substring("unix:".length()), what), 0);
        }
        Matcher url = URL.matcher(text);
        if (!url.matches()) {
            throw wrong(what, fault(text));
        }
        Matcher authority = AUTHORITY.matcher(url.group(2));
        if (!authority.matches()) {
            throw wrong(what, "has no port from 1 to 65535 after its host");
        }
        String host = authority.group(1);
        if (host.isEmpty()) {
            throw wrong(what, "has no host");
        }
        if (!isHost(host)) {
            throw wrong(what, "has a host that is neither a name nor an address");
        }
        int port = authority.group(2) == null ? 0 : Integer.parseInt(authority.group(2));
        if (port < 1 || port > 65_535) {
            throw wrong(what, "has no port from 1 to 65535");
        }
        return new Address(url.group(1).toLowerCase(Locale.ROOT), host.replaceAll("[\\[\\]]", ""), port);
    }

    private static IllegalArgumentException wrong(String what, String fault) {
        return new IllegalArgumentException(what + " " + fault + "; it is " + FORMS);
    }

    /** What is wrong with a text of another form. */
    private static String fault(String text) {
        if (!text.regionMatches(true, 0, "http://", 0, 7) && !text.regionMatches(true, 0, "https://", 0, 8)) {
            return "begins neither with http:// nor https:// nor unix:/";
        }
        if (text.contains("@")) {
            return "has a user; a token is set by itself, or in TOLLGATE_TOKEN";
        }
        if (text.contains("?")) {
            return "has a query";
        }
        return text.contains("#") ? "has a fragment" : "has a path";
    }

    private static String path(String path, String what) {
        boolean absolute = path.startsWith("/") && !path.equals("/") && !path.startsWith("//");
        boolean plain = path.chars().noneMatch(unit -> unit == 0 || unit == '?' || unit == '#');
        if (!absolute || !plain || Text.utf8Length(path) < 0) {
            throw wrong(what, "has no absolute path of a unix socket");
        }
        if (path.getBytes(StandardCharsets.UTF_8).length > MAX_UNIX_PATH) {
            throw wrong(what, "has a path of more than " + MAX_UNIX_PATH + " bytes");
        }
        return path;
    }

    private static boolean isHost(String host) {
        if (host.startsWith("[")) {
            try {
                // What is in brackets is never looked up.
                InetAddress.getByName(host);
                return true;
            } catch (UnknownHostException wrong) {
                return false;
            }
        }
        // A resolver would read 127.1 and 0x7f.1 as addresses that nobody meant.
        return NUMERIC.matcher(host).matches() ? isIpv4(host) : NAME.matcher(host).matches();
    }

    private static boolean isIpv4(String host) {
        String[] bytes = host.split("\\.", -1);
        if (bytes.length != 4) {
            return false;
        }
        for (String one : bytes) {
            if (!BYTE.matcher(one).matches()) {
                return false;
            }
        }
        return true;
    }

    boolean isUnix() {
        return scheme.equals(UNIX);
    }

    boolean isTls() {
        return scheme.equals("https");
    }

    /** The field {@code Host} of requests. */
    String authority() {
        if (isUnix()) {
            return "localhost";
        }
        return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
    }

    /** Returns the address as it is written. */
    @Override
    public String toString() {
        return isUnix() ? UNIX + ":" + host : scheme + "://" + authority();
    }
}
