package io.github.tollgaters.client;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Makes a detail fit for one line of a log: it may come from something between, which repeats its request. */
final class Masking {
    /** The longest detail in a line: what answers may be no service and send anything. */
    private static final int MAX_DETAIL = 300;
    /** A shorter value is masked only where it is a word of its own: in a longer one, it is a part of the text. */
    private static final int MIN_PART = 4;
    private static final String MASK = "***";
    /** More of a detail is not looked at. */
    private static final int MAX_LOOK = 64 << 10;
    /** The longest value as JSON may write it: six characters for one byte. */
    private static final int MAX_VALUE = 6 * Text.MAX_BYTES;

    private Masking() {
    }

    /** Returns the start of a detail without these values and without control characters. */
    static String masked(String received, List<String> values) {
        boolean cut = received.length() > MAX_LOOK;
        String detail = cut ? received.substring(0, MAX_LOOK) : received;
        // A value that begins before this end is whole.
        int last = cut ? MAX_LOOK - MAX_VALUE : detail.length();
        List<String> found = values.stream().flatMap(value -> Stream.of(value, inJson(value))).distinct()
                .filter(value -> !value.isEmpty() && detail.contains(value))
                // A value may be a part of another one.
                .sorted(Comparator.comparingInt(String::length).reversed()).toList();
        StringBuilder masked = new StringBuilder();
        for (int at = 0; at < last && masked.length() < MAX_DETAIL;) {
            String value = valueAt(detail, at, found);
            if (value == null) {
                char unit = detail.charAt(at);
                masked.append(Character.isISOControl(unit) || Character.isSurrogate(unit) ? ' ' : unit);
                at += 1;
            } else {
                masked.append(MASK);
                at += value.length();
            }
        }
        return masked.toString();
    }

    /** A detail that repeats a body has its values as JSON writes them. */
    private static String inJson(String value) {
        return new String(JsonStringEncoder.getInstance().quoteAsString(value));
    }

    private static String valueAt(String detail, int at, List<String> values) {
        for (String value : values) {
            if (detail.startsWith(value, at) && (Text.utf8Length(value) >= MIN_PART || isWord(detail, at, value))) {
                return value;
            }
        }
        return null;
    }

    private static boolean isWord(String detail, int at, String value) {
        int end = at + value.length();
        boolean inWord = at > 0 && Character.isLetterOrDigit(detail.codePointBefore(at))
                || end < detail.length() && Character.isLetterOrDigit(detail.codePointAt(end));
        return !inWord;
    }
}
