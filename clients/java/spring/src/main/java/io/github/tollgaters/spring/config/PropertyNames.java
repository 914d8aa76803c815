package io.github.tollgaters.spring.config;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.EnumerablePropertySource;
import org.springframework.core.env.Environment;
import org.springframework.core.env.PropertySource;
import org.springframework.core.env.StandardEnvironment;

/** Finds names of attributes and policies of which Spring Boot would drop characters when it reads them. */
final class PropertyNames {

    private static final List<Pattern> MAPS = List.of(
            Pattern.compile("tollgate\\.filters\\[\\d+]\\.attributes\\.(.+)"),
            Pattern.compile("tollgate\\.policies\\.(.+)\\.enabled"));
    private static final Pattern BRACKETED = Pattern.compile("\\[[^\\]]*]");
    private static final Pattern KEPT = Pattern.compile("[A-Za-z0-9.-]*");

    private PropertyNames() {
    }

    static void check(Environment environment) {
        if (!(environment instanceof ConfigurableEnvironment configurable)) {
            return;
        }
        for (PropertySource<?> source : configurable.getPropertySources()) {
            boolean isVariables = source.getName().equals(StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME);
            if (!isVariables && source instanceof EnumerablePropertySource<?> enumerable) {
                for (String name : enumerable.getPropertyNames()) {
                    checkName(name);
                }
            }
        }
    }

    private static void checkName(String name) {
        for (Pattern map : MAPS) {
            Matcher matcher = map.matcher(name);
            if (matcher.matches() && !KEPT.matcher(BRACKETED.matcher(matcher.group(1)).replaceAll("")).matches()) {
                String key = matcher.group(1);
                throw new InvalidPropertyException(name, "has a character in `" + key + "` that Spring Boot drops: write "
                        + "[" + key + "], between quotes in YAML", null);
            }
        }
    }
}
