package io.github.tollgaters.spring.support;

import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Finds keys that were meant as expressions, but have no braces: all callers would share one counter. */
public final class PlainKeys {

    private static final Pattern CALL = Pattern.compile("[\\w)\\]]\\(");
    private static final Pattern FIRST_NAME = Pattern.compile("([A-Za-z_$][\\w$]*)(\\??\\.|\\[|$)");

    private PlainKeys() {}

    /**
     * Returns what is wrong with a key that is a plain text.
     *
     * @param text the key
     * @param names the names that expressions see
     * @param prefix what is written before a name in an expression: {@code #} or nothing
     * @return the end of a message, or nothing if the text does not read like an expression
     */
    public static Optional<String> doubt(String text, Set<String> names, String prefix) {
        Matcher first = FIRST_NAME.matcher(text);
        boolean isName = first.lookingAt() && names.contains(first.group(1));
        if (!isName && !CALL.matcher(text).find()) {
            return Optional.empty();
        }
        String expression = (isName ? prefix : "") + text;
        return Optional.of("reads like an expression, but is one key for all callers: write \"#{" + expression
                + "}\", or \"#{'" + text.replace("'", "''") + "'}\" if the text is meant");
    }
}
