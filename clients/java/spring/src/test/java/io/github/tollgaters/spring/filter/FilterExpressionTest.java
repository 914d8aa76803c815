package io.github.tollgaters.spring.filter;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.tollgaters.spring.config.InvalidPropertyException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A key whose braces were forgotten is refused: all callers would share one counter. */
class FilterExpressionTest {

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '"', value = {
        "principal.name|#{'principal.name'}",
        "principal?.name|#{'principal?.name'}",
        "ip|#{'ip'}",
        "getRemoteAddr()|#{'getRemoteAddr()'}",
        "headers['x-user']|#{'headers[''x-user'']'}"
    })
    void refuses_keys_that_read_like_expressions(String key, String text) {
        assertThatThrownBy(() -> FilterExpression.parseKey(key, "tollgate.filters[0].key"))
                .isInstanceOf(InvalidPropertyException.class)
                .hasMessage("tollgate.filters[0].key `" + key + "` reads like an expression, but is one key for all "
                        + "callers: write \"#{" + key + "}\", or \"" + text + "\" if the text is meant");
        assertThat(FilterExpression.parseKey(text, "tollgate.filters[0].key").isPlain()).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"everybody", "ip-range", "principals", "all (of us)", "10.0.0.1", "a request"})
    void takes_other_texts(String key) {
        assertThat(FilterExpression.parseKey(key, "tollgate.filters[0].key").isPlain()).isTrue();
    }
}
