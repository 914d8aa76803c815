package io.github.tollgaters.spring.config;

import static org.assertj.core.api.Assertions.assertThat;

import com.jayway.jsonpath.JsonPath;
import java.io.InputStream;
import java.lang.reflect.RecordComponent;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;

class ConfigurationMetadataTest {

    private static String metadata() throws Exception {
        // Other jars have such a file, too; ours is that of the classes.
        URL ours = TollgateProperties.class.getProtectionDomain().getCodeSource().getLocation().toURI()
                .resolve("META-INF/spring-configuration-metadata.json").toURL();
        try (InputStream file = ours.openStream()) {
            return new String(file.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    @Test
    void describes_every_property() throws Exception {
        List<Map<String, Object>> properties = JsonPath.read(metadata(), "$.properties");
        Map<String, Object> descriptions = new TreeMap<>();
        properties.forEach(property ->
                descriptions.put((String) property.get("name"), property.getOrDefault("description", "")));
        Stream.of(TollgateProperties.class.getRecordComponents()).map(RecordComponent::getName)
                .map(ConfigurationMetadataTest::kebab)
                .forEach(name -> assertThat(descriptions).containsKey("tollgate." + name));
        descriptions.forEach((name, description) -> {
            assertThat(ConfigurationPropertyName.isValid(name)).isTrue();
            assertThat((String) description).as(name).matches("(?s)[A-Z].*\\.");
        });
    }

    @Test
    void has_defaults_and_hints() throws Exception {
        List<String> onFailure = JsonPath.read(metadata(), "$.hints[?(@.name=='tollgate.on-failure')].values[*].value");
        assertThat(onFailure).containsExactly("open", "closed");
        List<String> algorithms = JsonPath.read(metadata(), "$.hints[?(@.name=='tollgate.use-algo')].values[*].value");
        assertThat(algorithms).containsExactly("fixed-window-algo", "sliding-window-algo");
        List<Map<String, Object>> properties = JsonPath.read(metadata(), "$.properties");
        Map<String, Object> defaults = new TreeMap<>();
        properties.forEach(property -> defaults.put((String) property.get("name"), property.get("defaultValue")));
        assertThat(defaults).containsEntry("tollgate.enabled", true).containsEntry("tollgate.on-failure", "open")
                .containsEntry("tollgate.timeout", "250ms").containsEntry("tollgate.max-connections", 64);
        List<String> hinted = JsonPath.read(metadata(), "$.hints[*].name");
        assertThat(new TreeSet<>(defaults.keySet())).containsAll(
                hinted.stream().map(name -> name.replaceAll("\\.keys$", "")).toList());
    }

    private static String kebab(String name) {
        return name.replaceAll("([A-Z])", "-$1").toLowerCase(Locale.ROOT);
    }
}
