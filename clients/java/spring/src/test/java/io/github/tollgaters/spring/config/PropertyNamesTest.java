package io.github.tollgaters.spring.config;

import static org.assertj.core.api.Assertions.assertThatCode;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.env.SystemEnvironmentPropertySource;

class PropertyNamesTest {

    /** Spring Boot 4.1 gives an {@code application.yaml} with {@code {}} one property, whose name is null. */
    @Test
    void passesOverPropertiesWithoutAName() {
        Map<String, Object> nameless = new HashMap<>();
        nameless.put(null, "");
        StandardEnvironment environment = new StandardEnvironment();
        environment.getPropertySources().addFirst(new MapPropertySource("empty file", nameless));
        assertThatCode(() -> PropertyNames.check(environment)).doesNotThrowAnyException();
    }

    @Test
    void passesOverVariablesOfOtherPrograms() {
        StandardEnvironment environment = new StandardEnvironment();
        String variables = StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME;
        Map<String, Object> ofOthers = Map.of("tollgate.of-another", "x", "TOLLGATE_OF_ANOTHER", "x");
        environment.getPropertySources().replace(variables, new SystemEnvironmentPropertySource(variables, ofOthers));
        assertThatCode(() -> PropertyNames.check(environment)).doesNotThrowAnyException();
    }
}
