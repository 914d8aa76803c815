package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.config.InvalidPropertyException;
import java.util.regex.Pattern;
import org.springframework.http.server.PathContainer;
import org.springframework.web.util.pattern.PathPattern;
import org.springframework.web.util.pattern.PathPatternParser;
import org.springframework.web.util.pattern.PatternParseException;

/**
 * A pattern of paths that also matches what a framework, a later filter or a container may treat as the same path.
 *
 * <p>It matches more than the pattern of a handler would, and never less: a request that is counted although no handler
 * takes it costs a unit, but one that reaches a handler uncounted has passed the limit.
 */
final class UrlPattern {

    private static final Pattern ENCODED = Pattern.compile("%[0-9a-fA-F]{2}");
    private static final Pattern REGULAR_EXPRESSION = Pattern.compile("/\\.[*+]|[\\^$()|\\\\]|\\[");
    private static final PathPatternParser PARSER = parser();

    private final PathPattern pattern;

    private UrlPattern(PathPattern pattern) {
        this.pattern = pattern;
    }

    /** Reads a pattern; an error names the property. */
    static UrlPattern parse(String text, String property) {
        String outside = text.replaceAll("\\{[^/]*}", "{}");
        if (REGULAR_EXPRESSION.matcher(outside).find()) {
            throw wrong(property, text, "looks like a regular expression, but is a path pattern: write /api/** for every "
                    + "path below /api");
        }
        if (ENCODED.matcher(outside).find()) {
            throw wrong(property, text, "has an encoded character: write the character itself");
        }
        if (outside.contains("//") || outside.contains(";") || outside.contains("/./") || outside.contains("/../")) {
            throw wrong(property, text, "has an empty segment, a dot segment or a semicolon: no path matches it");
        }
        String trimmed = text.length() > 1 && text.endsWith("/") ? text.substring(0, text.length() - 1) : text;
        try {
            return new UrlPattern(PARSER.parse(trimmed));
        } catch (PatternParseException error) {
            throw wrong(property, text, "is no path pattern: " + error.toDetailedString());
        }
    }

    boolean matches(RequestPaths paths) {
        for (PathContainer path : paths.forms()) {
            if (pattern.matches(path)) {
                return true;
            }
        }
        return false;
    }

    private static PathPatternParser parser() {
        PathPatternParser parser = new PathPatternParser();
        parser.setCaseSensitive(false);
        return parser;
    }

    private static InvalidPropertyException wrong(String property, String text, String problem) {
        return new InvalidPropertyException(property, "`" + text + "` " + problem, null);
    }

    @Override
    public String toString() {
        return pattern.getPatternString();
    }
}
