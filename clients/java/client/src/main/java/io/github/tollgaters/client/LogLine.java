package io.github.tollgaters.client;

import java.util.Map;

/**
 * A line of a client's log, which says how many calls had no decision of the service since the line before.
 *
 * <p>It has no key, no token and no body.
 *
 * @param level a warning, or an error if the service refused a call, which never heals by itself
 * @param message the text of the line
 * @param failures the number of these calls by kind; kinds that did not occur are absent
 */
public record LogLine(System.Logger.Level level, String message, Map<FailureKind, Long> failures) {
    /**
     * Makes a line. Its map is copied.
     *
     * @param level the level
     * @param message the text
     * @param failures the numbers by kind
     */
    public LogLine {
        failures = Map.copyOf(failures);
    }
}
