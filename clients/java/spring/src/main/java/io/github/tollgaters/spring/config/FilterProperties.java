package io.github.tollgaters.spring.config;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * A limit of URLs. Expressions are written as {@code #{...}}, in the language of Spring, and see {@code request},
 * {@code principal}, {@code headers}, {@code params}, {@code ip} and the beans of the app.
 *
 * @param url The path within the app as a PathPattern, such as /api/**. Case, a trailing slash, matrix parameters and
 *     encodings make no difference.
 * @param name The name of the check, which a policy of the service matches. Default: the url.
 * @param methods The methods of HTTP that are limited, such as POST. GET includes HEAD. Default: all.
 * @param quotas Limits that come with the call, such as 5/1m, in place of policies of the service.
 * @param attributes What is sent with the check, by name. Default: the address of the client as ip.
 * @param key One more attribute, named key.
 * @param cost The cost of a request.
 * @param condition Whether a request is limited, as an expression that is true or false.
 * @param enabled Whether the filter is used.
 * @param headers Whether responses get the limit headers that the service sends. Default: tollgate.include-http-headers.
 * @param order The place among the filters of URLs: lower ones come first, equal ones in the order in which they are
 *     written.
 */
public record FilterProperties(
        String url,
        String name,
        @DefaultValue List<String> methods,
        @DefaultValue List<String> quotas,
        @DefaultValue Map<String, String> attributes,
        String key,
        @DefaultValue("1") String cost,
        String condition,
        @DefaultValue("true") boolean enabled,
        Boolean headers,
        @DefaultValue("0") int order) {

    private static final Set<String> METHODS =
            Set.of("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE");
    private static final Pattern POLICY_NAME = Pattern.compile("[A-Za-z0-9_.-]{1,64}");
    private static final int MAX_QUOTAS = 8;
    /** Those of a request, without the action, the key and the prefix. */
    private static final int MAX_ATTRIBUTES = 61;
    private static final int MAX_NAME = 128;
    private static final int MAX_CHECK_NAME = 256;

    /**
     * Copies the lists.
     *
     * @param url as above
     * @param name as above
     * @param methods as above
     * @param quotas as above
     * @param attributes as above
     * @param key as above
     * @param cost as above
     * @param condition as above
     * @param enabled as above
     * @param headers as above
     * @param order as above
     */
    public FilterProperties {
        methods = methods.stream().map(method -> method.strip().toUpperCase(Locale.ROOT)).toList();
        quotas = List.copyOf(quotas);
        attributes = new LinkedHashMap<>(attributes);
    }

    /**
     * Returns the name of the check: the url, if no name was given.
     *
     * @return the name
     */
    public String effectiveName() {
        return name != null ? name : url;
    }

    /** Throws if a value is wrong; {@code property} is the name of this entry. */
    void check(String property) {
        if (url == null || url.isBlank()) {
            throw wrong(property, "url", "is missing: write a pattern such as /api/**, or /** for every path");
        }
        if (url.length() > MAX_CHECK_NAME) {
            throw wrong(property, "url", "has more than " + MAX_CHECK_NAME + " characters");
        }
        if (!url.startsWith("/")) {
            throw wrong(property, "url", "must begin with a slash: it is a path pattern such as /api/**, and no regular "
                    + "expression");
        }
        if (name != null && (name.isBlank() || name.length() > MAX_CHECK_NAME)) {
            throw wrong(property, "name", "must have 1 to " + MAX_CHECK_NAME + " characters");
        }
        for (String method : methods) {
            if (!METHODS.contains(method)) {
                throw wrong(property, "methods", "has the unknown method `" + method + "`");
            }
        }
        if (!quotas.isEmpty() && !POLICY_NAME.matcher(effectiveName()).matches()) {
            throw wrong(property, "name", (name == null ? "is missing, but needed" : "is not a name")
                    + " for quotas: 1 to 64 letters, digits, `-`, `_` and `.`");
        }
        if (quotas.size() > MAX_QUOTAS || quotas.stream().anyMatch(String::isBlank)) {
            throw wrong(property, "quotas", "must be 1 to " + MAX_QUOTAS + " texts such as 5/1m");
        }
        if (attributes.size() > MAX_ATTRIBUTES) {
            throw wrong(property, "attributes", "has more than " + MAX_ATTRIBUTES + " entries");
        }
        attributes.forEach((attribute, value) -> {
            if (attribute.length() > MAX_NAME) {
                throw wrong(property, "attributes." + attribute, "has a name of more than " + MAX_NAME + " characters");
            }
            checkText(property, "attributes." + attribute, value);
            if (attribute.equals("action")) {
                throw wrong(property, "attributes.action", "is the name of the check: use " + property + ".name");
            }
        });
        if (key != null) {
            checkText(property, "key", key);
            if (attributes.containsKey("key")) {
                throw wrong(property, "key", "is also " + property + ".attributes.key: remove one of them");
            }
        }
        checkText(property, "cost", cost);
        if (condition != null) {
            checkText(property, "condition", condition);
        }
    }

    private static void checkText(String property, String field, String value) {
        if (value == null || value.isBlank()) {
            throw wrong(property, field, "is empty; if it is an expression, put it between quotes, because YAML takes a "
                    + "bare # as the beginning of a comment");
        }
    }

    private static InvalidPropertyException wrong(String property, String field, String problem) {
        return TollgateProperties.wrong(property + "." + field, problem);
    }
}
