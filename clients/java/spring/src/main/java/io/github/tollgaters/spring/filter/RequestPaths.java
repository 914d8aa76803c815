package io.github.tollgaters.spring.filter;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.springframework.http.server.PathContainer;
import org.springframework.util.StringUtils;
import org.springframework.web.util.UriUtils;

/**
 * The path of a request within the app, in each form under which it may reach a handler: as the framework splits and
 * decodes it, as the container does, and cleaned.
 *
 * <p>The cleaned form has neither matrix parameters, empty segments, dot segments nor a slash at the end, and a slash
 * or backslash that was encoded divides it: handlers of files, and filters that remove a slash, see a path so.
 */
public final class RequestPaths {

    private final List<PathContainer> forms;

    private RequestPaths(List<PathContainer> forms) {
        this.forms = List.copyOf(forms);
    }

    /**
     * Returns the forms of a path.
     *
     * @param encoded the path within the app, as it was sent
     * @param decoded the path by which the container chose its handler, or null if it chose none
     * @return the forms
     * @throws IllegalArgumentException if the path is encoded wrongly
     */
    public static RequestPaths of(String encoded, String decoded) {
        List<PathContainer> forms = new ArrayList<>(3);
        forms.add(PathContainer.parsePath(encoded.isEmpty() ? "/" : encoded));
        add(forms, cleaned(withoutParameters(encoded)));
        if (decoded != null) {
            add(forms, cleaned(decoded));
        }
        return new RequestPaths(forms);
    }

    List<PathContainer> forms() {
        return forms;
    }

    private static void add(List<PathContainer> forms, String path) {
        if (forms.stream().noneMatch(form -> form.value().equals(path))) {
            forms.add(PathContainer.parsePath(path));
        }
    }

    /** Decodes a path once, without its matrix parameters. */
    private static String withoutParameters(String encoded) {
        StringBuilder path = new StringBuilder(encoded.length());
        for (String segment : encoded.split("/", -1)) {
            int parameters = segment.indexOf(';');
            String name = parameters < 0 ? segment : segment.substring(0, parameters);
            path.append('/').append(StringUtils.uriDecode(name, StandardCharsets.UTF_8));
        }
        return path.toString();
    }

    /** Returns the cleaned path, encoded so that it is decoded to itself. */
    private static String cleaned(String decoded) {
        Deque<String> segments = new ArrayDeque<>();
        for (String segment : decoded.replace('\\', '/').split("/")) {
            if (segment.equals("..")) {
                segments.pollLast();
            } else if (!segment.isEmpty() && !segment.equals(".")) {
                segments.addLast(segment);
            }
        }
        StringBuilder path = new StringBuilder();
        for (String segment : segments) {
            path.append('/').append(UriUtils.encode(segment, StandardCharsets.UTF_8));
        }
        return path.isEmpty() ? "/" : path.toString();
    }
}
