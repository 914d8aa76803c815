package io.github.tollgaters.spring.filter;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class UrlPatternTest {

    @ParameterizedTest
    @ValueSource(strings = {
        "/login", "/LOGIN", "/Login/", "/login//", "//login", "/login;a=b", "/login;", "/;x/login", "/lo%67in",
        "/%4cOGIN", "/./login", "/a/../login", "/a/%2e%2e/login", "/login/.", "/x%2F..%2Flogin", "%2Flogin",
        "/%5Clogin", "/\\login", "/login%2F", "/login%5c", "/../login"
    })
    void matches_every_form_of_a_path(String path) {
        assertThat(UrlPattern.parse("/login", "url").matches(RequestPaths.of(path, null))).isTrue();
        assertThat(UrlPattern.parse("/Login/", "url").matches(RequestPaths.of(path, null))).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"/logins", "/login/x", "/x/login", "/", "", "/log%2Fin", "/login%3Ba", "/login%2567"})
    void does_not_match_another_path(String path) {
        assertThat(UrlPattern.parse("/login", "url").matches(RequestPaths.of(path, null))).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"/api", "/api/", "/API/a/b", "//api/x", "/x/../api/y", "/api;a/x", "/api%2Fx"})
    void matches_every_form_of_a_path_below(String path) {
        assertThat(UrlPattern.parse("/api/**", "url").matches(RequestPaths.of(path, null))).isTrue();
    }

    @Test
    void matches_the_path_of_the_container() {
        assertThat(UrlPattern.parse("/login", "url").matches(RequestPaths.of("/alias", "/Login/"))).isTrue();
        assertThat(UrlPattern.parse("/100%", "url").matches(RequestPaths.of("/100%25", "/100%"))).isTrue();
        assertThat(UrlPattern.parse("/caf\u00e9/{id}", "url").matches(RequestPaths.of("/CAF%C3%A9/7", null))).isTrue();
    }

    @Test
    void every_path_matches_two_stars() {
        for (String path : new String[] {"", "/", "/a", "//", "/..", "/%2F"}) {
            assertThat(UrlPattern.parse("/**", "url").matches(RequestPaths.of(path, null))).as(path).isTrue();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "/api/.*", "/api/.+", "/(a|b)", "/api$", "/a[0-9]", "/caf%C3%A9", "//api", "/a/../b", "/a;b", "/{a", "/**/a/**/b"
    })
    void refuses_a_pattern_that_no_path_matches(String pattern) {
        assertThatThrownBy(() -> UrlPattern.parse(pattern, "tollgate.filters[3].url"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("tollgate.filters[3].url `" + pattern + "`");
    }

    @Test
    void takes_regular_expressions_of_variables_and_stars() {
        assertThat(UrlPattern.parse("/{id:[0-9]{1,3}}", "url").matches(RequestPaths.of("/123", null))).isTrue();
        assertThat(UrlPattern.parse("/{id:(?:a|b)+}", "url").matches(RequestPaths.of("/AB", null))).isTrue();
        assertThat(UrlPattern.parse("/files/*.*", "url").matches(RequestPaths.of("/files/a.pdf", null))).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"/%zz", "/a%", "/%4"})
    void refuses_a_path_that_is_encoded_wrongly(String path) {
        assertThatThrownBy(() -> RequestPaths.of(path, null)).isInstanceOf(IllegalArgumentException.class);
    }
}
