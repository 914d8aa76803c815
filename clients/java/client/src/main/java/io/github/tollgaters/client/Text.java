package io.github.tollgaters.client;

/** Bounds of texts, in the terms of the service. */
final class Text {
    /** The longest text that the service takes, in bytes of UTF-8. */
    static final int MAX_BYTES = 1024;

    private Text() {
    }

    /** Returns the length in UTF-8, or -1 if the text has a surrogate without its other half. */
    static int utf8Length(CharSequence text) {
        int bytes = 0;
        for (int at = 0; at < text.length(); at++) {
            char unit = text.charAt(at);
            if (unit < 0x80) {
                bytes += 1;
            } else if (unit < 0x800) {
                bytes += 2;
            } else if (!Character.isSurrogate(unit)) {
                bytes += 3;
            } else if (at + 1 < text.length() && Character.isSurrogatePair(unit, text.charAt(at + 1))) {
                bytes += 4;
                at += 1;
            } else {
                return -1;
            }
        }
        return bytes;
    }

    /** Returns a text that the service takes, or says what is wrong with it. */
    static String sendable(String text, String what) {
        int bytes = utf8Length(text);
        if (bytes < 0) {
            throw new IllegalArgumentException(what + " is no Unicode: it has half of a surrogate pair");
        }
        if (bytes > MAX_BYTES) {
            throw new IllegalArgumentException(what + " has " + bytes + " bytes, more than " + MAX_BYTES);
        }
        return text;
    }

    /** Returns a name: a text that is sendable and not empty. */
    static String name(String text, String what) {
        if (text == null || text.isEmpty()) {
            throw new IllegalArgumentException(what + " is empty");
        }
        return sendable(text, what);
    }

    /** Returns a text that is fit for an error: short, on one line. */
    static String quoted(String text) {
        String start = text.length() > 100 ? text.substring(0, 100) + "..." : text;
        return '"' + start.replaceAll("\\p{Cntrl}", "?") + '"';
    }
}
