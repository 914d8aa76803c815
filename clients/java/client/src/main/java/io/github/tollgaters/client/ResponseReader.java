package io.github.tollgaters.client;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.ProtocolException;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * Reads one answer of HTTP/1.1. What is ambiguous is refused: a length that is given twice, a line that is continued, a
 * coding that is not {@code chunked}.
 */
final class ResponseReader {
    /** The longest body of an answer. */
    private static final int MAX_BODY = 1 << 20;
    /** The service sends a few headers; more bytes than this are no answer of it. */
    private static final int MAX_HEAD = 64 << 10;
    private static final int MAX_CHUNK_LINE = 1024;
    private static final int NO_CONTENT = 204;
    private static final int NOT_MODIFIED = 304;

    /** Where bytes come from. */
    interface Source {
        /** Reads some bytes, at least one, or returns -1 at the end. */
        int read(byte[] buffer, int offset, int length) throws IOException;
    }

    /**
     * An answer, and whether its connection can be used again.
     */
    record Whole(Transport.Reply reply, boolean keepsAlive) {
    }

    private final Source source;
    private final byte[] buffer = new byte[8192];
    private int start;
    private int end;
    private int headLeft;

    ResponseReader(Source source) {
        this.source = source;
    }

    /**
     * Reads an answer.
     *
     * @throws ProtocolException if the bytes are no answer in HTTP, or too many
     * @throws EOFException if the connection ended within the answer
     */
    Whole read() throws IOException {
        headLeft = MAX_HEAD;
        String statusLine = line();
        int status = status(statusLine);
        if (status < 200) {
            // The service sends none of these, and what comes after a switch of protocols would never end.
            throw new ProtocolException("status " + status + ", and no answer of the service");
        }
        Map<String, String> headers = headers();
        boolean keepsAlive = statusLine.startsWith("HTTP/1.1 ") && !has(headers.get("connection"), "close");
        byte[] body;
        if (status == NO_CONTENT || status == NOT_MODIFIED) {
            body = new byte[0];
        } else if (headers.containsKey("transfer-encoding")) {
            body = chunks(headers);
        } else if (headers.containsKey("content-length")) {
            body = exactly(length(headers.get("content-length")));
        } else {
            body = untilEnd();
            keepsAlive = false;
        }
        // Bytes after an answer answer nothing.
        return new Whole(new Transport.Reply(status, headers, body), keepsAlive && start == end);
    }

    private static int status(String line) throws ProtocolException {
        boolean isStatus = line.length() >= 12 && (line.startsWith("HTTP/1.1 ") || line.startsWith("HTTP/1.0 "))
                && (line.length() == 12 || line.charAt(12) == ' ');
        if (isStatus && isDigit(line.charAt(9)) && isDigit(line.charAt(10)) && isDigit(line.charAt(11))) {
            int status = Integer.parseInt(line, 9, 12, 10);
            if (status >= 100) {
                return status;
            }
        }
        throw new ProtocolException("the answer is no HTTP");
    }

    private static boolean isDigit(char unit) {
        return unit >= '0' && unit <= '9';
    }

    private Map<String, String> headers() throws IOException {
        Map<String, String> headers = new LinkedHashMap<>();
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            if (colon < 1 || !isName(line, colon)) {
                throw new ProtocolException("the answer has a header that is none");
            }
            String name = line.substring(0, colon).toLowerCase(Locale.ROOT);
            headers.merge(name, line.substring(colon + 1).strip(), (before, value) -> before + ", " + value);
        }
        return headers;
    }

    private static boolean isName(String line, int end) {
        for (int at = 0; at < end; at++) {
            char unit = line.charAt(at);
            if (!Character.isLetterOrDigit(unit) && "!#$%&'*+-.^_`|~".indexOf(unit) < 0 || unit > 0x7e) {
                return false;
            }
        }
        return true;
    }

    private static boolean has(String list, String token) {
        if (list != null) {
            for (String element : list.split(",")) {
                if (element.strip().equalsIgnoreCase(token)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static int length(String text) throws ProtocolException {
        if (text.isEmpty() || !text.chars().allMatch(unit -> isDigit((char) unit))) {
            throw new ProtocolException("the length of the answer is no number");
        }
        // A number of so many digits may not fit.
        if (text.length() > 10 || Long.parseLong(text) > MAX_BODY) {
            throw tooLong();
        }
        return Integer.parseInt(text);
    }

    private static ProtocolException tooLong() {
        return new ProtocolException("the answer has more than 1 MiB");
    }

    private byte[] exactly(int length) throws IOException {
        byte[] body = new byte[length];
        for (int at = 0; at < length;) {
            fill();
            int part = Math.min(length - at, end - start);
            System.arraycopy(buffer, start, body, at, part);
            start += part;
            at += part;
        }
        return body;
    }

    private byte[] untilEnd() throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        while (fillUnlessEnd()) {
            append(body, end - start);
        }
        return body.toByteArray();
    }

    private byte[] chunks(Map<String, String> headers) throws IOException {
        if (headers.containsKey("content-length") || !headers.get("transfer-encoding").equalsIgnoreCase("chunked")) {
            throw new ProtocolException("the answer has a coding that is not chunked alone");
        }
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (int left = chunkLength(); left > 0; left = chunkLength()) {
            while (left > 0) {
                fill();
                int part = Math.min(left, end - start);
                append(body, part);
                left -= part;
            }
            headLeft = 2;
            if (!line().isEmpty()) {
                throw new ProtocolException("a chunk of the answer has another length");
            }
        }
        headLeft = MAX_HEAD;
        headers();
        return body.toByteArray();
    }

    private int chunkLength() throws IOException {
        headLeft = MAX_CHUNK_LINE;
        String line = line();
        int extension = line.indexOf(';');
        String digits = (extension < 0 ? line : line.substring(0, extension)).strip();
        if (digits.isEmpty() || !digits.chars().allMatch(unit -> Character.digit(unit, 16) >= 0 && unit < 0x80)) {
            throw new ProtocolException("a chunk of the answer has no length");
        }
        if (digits.length() > 8 || Long.parseLong(digits, 16) > MAX_BODY) {
            throw tooLong();
        }
        return Integer.parseInt(digits, 16);
    }

    private void append(ByteArrayOutputStream body, int length) throws ProtocolException {
        if (body.size() + length > MAX_BODY) {
            throw tooLong();
        }
        body.write(buffer, start, length);
        start += length;
    }

    /** Reads a line, without its end. */
    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (;;) {
            fill();
            for (; start < end; start++) {
                if (--headLeft < 0) {
                    throw new ProtocolException("the answer has a head that is too long");
                }
                byte unit = buffer[start];
                if (unit == '\n') {
                    start += 1;
                    return withoutReturn(line);
                }
                line.append((char) (unit & 0xff));
            }
        }
    }

    private static String withoutReturn(StringBuilder line) throws ProtocolException {
        int last = line.length() - 1;
        if (last >= 0 && line.charAt(last) == '\r') {
            line.setLength(last);
        }
        for (int at = 0; at < line.length(); at++) {
            char unit = line.charAt(at);
            if (unit < ' ' && unit != '\t' || unit == 0x7f) {
                throw new ProtocolException("the answer is no HTTP");
            }
        }
        return line.toString();
    }

    private void fill() throws IOException {
        if (!fillUnlessEnd()) {
            throw new EOFException("the connection ended before the answer was whole");
        }
    }

    private boolean fillUnlessEnd() throws IOException {
        if (start < end) {
            return true;
        }
        start = 0;
        end = 0;
        int count = source.read(buffer, 0, buffer.length);
        if (count <= 0) {
            return false;
        }
        end = count;
        return true;
    }
}
