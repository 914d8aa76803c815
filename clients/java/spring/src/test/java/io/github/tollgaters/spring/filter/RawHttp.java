package io.github.tollgaters.spring.filter;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** An exchange that sends a path as it is; clients of HTTP clean paths. */
final class RawHttp {

    record Response(int status, Map<String, String> headers, String body) {
    }

    private final int port;

    RawHttp(int port) {
        this.port = port;
    }

    Response get(String target, String... headers) throws IOException {
        return send("GET", target, "", headers);
    }

    Response send(String method, String target, String body, String... headers) throws IOException {
        StringBuilder request = new StringBuilder(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n"
                + "Connection: close\r\n");
        for (String header : headers) {
            request.append(header).append("\r\n");
        }
        if (!body.isEmpty()) {
            request.append("Content-Length: ").append(body.length()).append("\r\n");
        }
        request.append("\r\n").append(body);
        try (Socket socket = new Socket("127.0.0.1", port)) {
            socket.setSoTimeout(20_000);
            socket.getOutputStream().write(request.toString().getBytes(StandardCharsets.ISO_8859_1));
            return parsed(readAll(socket.getInputStream()));
        }
    }

    private static String readAll(InputStream input) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        input.transferTo(all);
        return all.toString(StandardCharsets.UTF_8);
    }

    private static Response parsed(String text) {
        int end = text.indexOf("\r\n\r\n");
        if (end < 0) {
            return new Response(0, Map.of(), text);
        }
        String[] lines = text.substring(0, end).split("\r\n");
        Map<String, String> headers = new LinkedHashMap<>();
        for (int at = 1; at < lines.length; at++) {
            int colon = lines[at].indexOf(':');
            headers.put(lines[at].substring(0, colon).toLowerCase(Locale.ROOT), lines[at].substring(colon + 1).strip());
        }
        return new Response(Integer.parseInt(lines[0].split(" ")[1]), headers, text.substring(end + 4));
    }
}
