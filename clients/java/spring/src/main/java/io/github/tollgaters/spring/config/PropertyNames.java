package io.github.tollgaters.spring.config;

import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.EnumerablePropertySource;
import org.springframework.core.env.Environment;
import org.springframework.core.env.PropertySource;
import org.springframework.core.env.StandardEnvironment;

/**
 * Finds properties that begin with {@code tollgate} and that nothing reads, or whose names Spring Boot would change.
 *
 * <p>Spring Boot ignores unknown names. Its own check for them refuses lists that a profile replaces by shorter ones.
 * Variables of the environment are not looked at: other programs may have some that begin with TOLLGATE.
 */
final class PropertyNames {

    private static final Pattern ELEMENT = Pattern.compile("[^.\\[\\]]+|\\[[^\\]]*]");
    private static final Pattern INDEX = Pattern.compile("\\[\\d+]");
    private static final Pattern KEPT = Pattern.compile("\\[.*]|[A-Za-z0-9-]+");
    private static final String VARIABLES = StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME;
    private static final Set<String> NAMES = componentsOf(TollgateProperties.class);
    private static final Set<String> FILTER_NAMES = componentsOf(FilterProperties.class);
    private static final Set<String> LISTS = Set.of("closednames", "methods", "quotas");

    private PropertyNames() {
    }

    static void check(Environment environment) {
        if (!(environment instanceof ConfigurableEnvironment configurable)) {
            return;
        }
        for (PropertySource<?> source : configurable.getPropertySources()) {
            if (source instanceof EnumerablePropertySource<?> enumerable && !VARIABLES.equals(source.getName())) {
                // An empty file may have a property without a name.
                Stream.of(enumerable.getPropertyNames()).filter(Objects::nonNull).forEach(PropertyNames::check);
            }
        }
    }

    static void check(String name) {
        List<String> elements = elementsOf(name);
        if (elements.size() < 2 || !uniform(elements.get(0)).equals("tollgate")) {
            return;
        }
        String first = uniform(elements.get(1));
        List<String> rest = elements.subList(2, elements.size());
        if (!NAMES.contains(first)) {
            throw unknown(name);
        }
        switch (first) {
            case "filters" -> checkFilter(name, rest);
            case "policies" -> checkPolicy(name, rest);
            default -> checkValue(name, first, rest);
        }
    }

    private static void checkFilter(String name, List<String> elements) {
        if (!elements.isEmpty() && !INDEX.matcher(elements.get(0)).matches()) {
            throw unknown(name);
        }
        if (elements.size() < 2) {
            return;
        }
        String property = uniform(elements.get(1));
        if (!FILTER_NAMES.contains(property)) {
            throw unknown(name);
        }
        List<String> rest = elements.subList(2, elements.size());
        if (property.equals("attributes")) {
            rest.forEach(element -> checkKey(name, element, String.join(".", rest)));
        } else {
            checkValue(name, property, rest);
        }
    }

    private static void checkPolicy(String name, List<String> elements) {
        if (elements.size() < 2) {
            return;
        }
        int last = elements.size() - 1;
        if (!uniform(elements.get(last)).equals("enabled")) {
            throw unknown(name);
        }
        String key = String.join(".", elements.subList(0, last));
        if (last > 1) {
            throw new InvalidPropertyException(
                    name, "has a name with a dot: write [" + key + "], between quotes in YAML", null);
        }
        checkKey(name, elements.get(0), key);
    }

    private static void checkKey(String name, String element, String key) {
        if (!KEPT.matcher(element).matches()) {
            throw new InvalidPropertyException(name, "has a character in `" + key + "` that Spring Boot drops: write ["
                    + key + "], between quotes in YAML", null);
        }
    }

    private static void checkValue(String name, String property, List<String> rest) {
        boolean isElement = LISTS.contains(property) && rest.size() == 1 && INDEX.matcher(rest.get(0)).matches();
        if (!rest.isEmpty() && !isElement) {
            throw unknown(name);
        }
    }

    private static InvalidPropertyException unknown(String name) {
        return new InvalidPropertyException(name, "is no property of Tollgate", null);
    }

    private static List<String> elementsOf(String name) {
        List<String> elements = new ArrayList<>();
        Matcher matcher = ELEMENT.matcher(name);
        while (matcher.find()) {
            elements.add(matcher.group());
        }
        return elements;
    }

    private static Set<String> componentsOf(Class<? extends Record> type) {
        return Stream.of(type.getRecordComponents()).map(RecordComponent::getName).map(PropertyNames::uniform)
                .collect(Collectors.toUnmodifiableSet());
    }

    /** Returns a name without what Spring Boot passes over when it compares names. */
    private static String uniform(String element) {
        return element.replaceAll("[^A-Za-z0-9]", "").toLowerCase(Locale.ROOT);
    }
}
