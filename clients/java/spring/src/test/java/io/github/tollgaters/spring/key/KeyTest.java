package io.github.tollgaters.spring.key;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.support.AnnotationExpression;
import io.github.tollgaters.spring.support.CostExpression;
import io.github.tollgaters.spring.support.DefaultRateLimitContext;
import io.github.tollgaters.spring.web.WebCaller;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.security.Principal;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.support.StaticListableBeanFactory;

/** What a call is counted by, and which keys are errors of the app. */
class KeyTest {

    private static final UUID ID = UUID.fromString("00000000-0000-0000-0000-000000000007");
    private static final WebCaller CALLER = new WebCaller() {
        @Override
        public Object getRequest() {
            return Map.of("tenant", "acme");
        }

        @Override
        public Optional<String> getAddress() {
            return Optional.of("203.0.113.7");
        }

        @Override
        public Optional<String> getUser() {
            return Optional.of("alice");
        }

        @Override
        public Optional<String> getHeader(String name) {
            return Optional.empty();
        }

        @Override
        public void setLimitHeaders(Map<String, String> headers) {}
    };
    private static final String SHOP = Shop.class.getName() + "#";

    private final StaticListableBeanFactory beans = new StaticListableBeanFactory(Map.of("plans", new Plans()));

    private DefaultRateLimitContext call(String method, Optional<WebCaller> caller, Object... arguments) {
        Method found = Arrays.stream(Shop.class.getMethods())
                .filter(candidate -> candidate.getName().equals(method))
                .findFirst()
                .orElseThrow();
        return new DefaultRateLimitContext(
                found.getAnnotation(RateLimit.class), Shop.class, found, arguments, new Shop(), caller);
    }

    private Map<String, ?> attributes(String method, Object... arguments) {
        return new DefaultRateLimitKeyResolver(beans).resolveAttributes(call(method, Optional.of(CALLER), arguments));
    }

    private Map<String, ?> attributesOutside(String method, Object... arguments) {
        return new DefaultRateLimitKeyResolver(beans).resolveAttributes(call(method, Optional.empty(), arguments));
    }

    @Test
    void a_limit_in_the_annotation_counts_by_scope_and_key_or_method() {
        assertThat(attributes("unkeyed")).isEqualTo(Map.of("key", "global:" + SHOP + "unkeyed"));
        assertThat(attributes("ofUser")).isEqualTo(Map.of("key", "user:" + SHOP + "ofUser", "user", "alice"));
        assertThat(attributes("ofAddress")).isEqualTo(Map.of("key", "ip:" + SHOP + "ofAddress", "ip", "203.0.113.7"));
        assertThat(attributes("plain")).isEqualTo(Map.of("key", "user:plain"));
        assertThat(attributes("byId", ID)).isEqualTo(Map.of("key", "global:" + ID));
    }

    @Test
    void policies_see_the_plain_key_or_the_caller() {
        assertThat(attributes("named")).isEqualTo(Map.of("ip", "203.0.113.7"));
        assertThat(attributes("namedGlobal")).isEqualTo(Map.of());
        assertThat(attributes("namedUser")).isEqualTo(Map.of("user", "alice"));
        assertThat(attributes("namedKey", 5)).isEqualTo(Map.of("key", "item-5"));
        assertThat(attributes("namedMap", "bob")).isEqualTo(Map.of("user", "bob", "tags", List.of("a", "b")));
        assertThat(attributesOutside("namedGlobal")).isEqualTo(Map.of());
    }

    @Test
    void expressions_see_arguments_the_method_the_bean_other_beans_and_the_request() {
        assertThat(attributes("ofBean", "bob")).isEqualTo(Map.of("key", "gold"));
        assertThat(attributes("ofRoot")).isEqualTo(Map.of("key", "ofRoot-the shop"));
        assertThat(attributes("ofRequest")).isEqualTo(Map.of("key", "acme"));
        assertThat(attributes("ofArgumentRequest", "mine")).isEqualTo(Map.of("key", "mine"));
        assertThat(attributes("ofIndex", "first")).isEqualTo(Map.of("key", "first"));
        assertThat(attributes("namedKey", Optional.of(5))).isEqualTo(Map.of("key", "item-5"));
    }

    @Test
    void an_expression_of_the_request_outside_of_requests_is_an_error() {
        assertThatThrownBy(() -> attributesOutside("ofRequest"))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("Shop#ofRequest(): key: #request is used outside of a web request");
    }

    @ParameterizedTest
    @ValueSource(strings = {"ofUser", "ofAddress", "namedUser"})
    void a_scope_of_callers_outside_of_requests_is_an_error(String method) {
        assertThatThrownBy(() -> attributesOutside(method))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("Shop#" + method)
                .hasMessageContaining("without a key needs a web request");
    }

    @Test
    void an_address_as_the_key_outside_of_requests_is_an_error() {
        assertThatThrownBy(() -> attributesOutside("named"))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("Shop#named(): the address of the caller is its key")
                .hasMessageContaining("scope = \"GLOBAL\"");
    }

    @Test
    void a_principal_is_counted_by_its_name() {
        Principal principal = new Principal() {
            @Override
            public String getName() {
                return "alice";
            }

            @Override
            public String toString() {
                return "alice, session 17";
            }
        };
        assertThat(attributes("byId", principal)).isEqualTo(Map.of("key", "global:alice"));
        assertThat(attributes("byId", LocalDate.of(2026, 1, 2))).isEqualTo(Map.of("key", "global:2026-01-02"));
        assertThat(attributes("byId", InetAddress.getLoopbackAddress())).isEqualTo(Map.of("key", "global:127.0.0.1"));
    }

    @Test
    void a_missing_key_is_an_error_also_as_a_part_and_never_a_shared_counter() {
        for (Object missing : Arrays.asList(null, "", Optional.empty())) {
            assertThatThrownBy(() -> attributes("namedKey", missing))
                    .hasMessageMatching(".*namedKey.*key.*(null|empty).*");
            assertThatThrownBy(() -> attributes("namedMap", missing)).isInstanceOf(IllegalStateException.class);
        }
        assertThatThrownBy(() -> attributes("byMap", Map.of())).hasMessageContaining("the key of a call is missing");
        assertThatThrownBy(() -> attributes("byMap", Map.of("tags", List.of())))
                .hasMessageContaining("tags: the list is empty");
    }

    @Test
    void an_object_without_a_text_of_its_own_is_no_key() {
        for (Object object : List.of(new Object(), new int[] {1}, List.of("a"), new Plans(), new Id("a"))) {
            assertThatThrownBy(() -> attributes("byId", object))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("Shop#byId(Object): key: a ")
                    .hasMessageContaining(" is no key");
        }
    }

    @Test
    void the_message_of_an_error_has_no_key() {
        assertThatThrownBy(() -> attributes("byMap", Map.of("ip", "secret")))
                .hasMessageContaining("ip: it is no IP address")
                .hasMessageNotContaining("secret");
    }

    @Test
    void long_and_broken_texts_become_digests() {
        String longest = "a".repeat(256);
        assertThat(checked(longest)).isEqualTo(longest);
        assertThat(checked(longest + "a"))
                .isEqualTo("sha256:e8d95cc2b4bc198c54b40bd214df958afb65f5e73d2c2eafe0593cf5c635c1f0");
        assertThat(checked("é".repeat(129))).asString().startsWith("sha256:");
        assertThat(checked("\ud800")).asString().startsWith("sha256:").isNotEqualTo(checked("\ud801"));
    }

    private static Object checked(String text) {
        return KeyAttributes.checked("here", Map.of("key", text)).get("key");
    }

    @ParameterizedTest
    @ValueSource(strings = {"203.0.113.7", "0.0.0.0", "::1", "0:0:0:0:0:0:0:1", "2001:db8::7", "::ffff:1.2.3.4"})
    void addresses_are_kept(String address) {
        assertThat(KeyAttributes.checked("here", Map.of("ip", address))).isEqualTo(Map.of("ip", address));
    }

    @ParameterizedTest
    @ValueSource(strings = {"localhost", "1.2.3", "1.2.3.256", "01.2.3.4", "1.2.3.4.", "::g", "1:2", "x", "[::1]"})
    void what_is_no_address_is_an_error(String address) {
        assertThatThrownBy(() -> KeyAttributes.checked("here", Map.of("ip", address)))
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void a_zone_is_no_part_of_an_address() {
        assertThat(KeyAttributes.checked("here", Map.of("ip", "fe80::1%eth0"))).isEqualTo(Map.of("ip", "fe80::1"));
    }

    @Test
    void a_cost_is_a_number_or_an_expression_of_one() {
        assertThat(cost("3", "x")).isEqualTo(3);
        assertThat(cost("#{#id.length()}", "four")).isEqualTo(4);
        assertThat(cost("#{0}", "x")).isZero();
        for (String wrong : List.of("#{-1}", "#{4294967296L}", "#{1.5}", "#{'3'}", "#{null}")) {
            assertThatThrownBy(() -> cost(wrong, "x"))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("Shop#namedMap(Object): cost: the expression returned");
        }
    }

    private long cost(String text, Object argument) {
        DefaultRateLimitContext context = call("namedMap", Optional.empty(), argument);
        return CostExpression.parse(text, context.getMethod(), Shop.class).valueOf(context, null);
    }

    @Test
    void an_error_of_an_expression_names_the_place() {
        DefaultRateLimitContext context = call("namedMap", Optional.empty(), Collections.singletonList(null).toArray());
        AnnotationExpression expression =
                AnnotationExpression.parse("key", "#{#id.length()}", context.getMethod(), Shop.class);
        assertThatThrownBy(() -> expression.values(context, null))
                .hasMessage("@RateLimit of " + SHOP + "namedMap(Object): key: the expression failed: EL1011E: Method call: "
                        + "Attempted to call method length() on null context object");
    }

    @Test
    void an_error_of_a_called_method_names_the_place_and_no_value() {
        DefaultRateLimitContext context = call("ofIndex", Optional.empty(), "secret");
        for (String text : List.of("#{T(Integer).parseInt(#first)}", "#{new java.net.URI(#first + ' :')}", "#{#first + 1 - #first}")) {
            AnnotationExpression expression =
                    AnnotationExpression.parse("key", text, context.getMethod(), Shop.class);
            assertThatThrownBy(() -> expression.values(context, null))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageStartingWith("@RateLimit of " + SHOP + "ofIndex(String): key: the expression failed: ")
                    .hasStackTraceContaining("Exception")
                    .satisfies(error -> assertThat(stackOf(error)).doesNotContain("secret"));
        }
    }

    private static String stackOf(Throwable error) {
        StringWriter stack = new StringWriter();
        error.printStackTrace(new PrintWriter(stack));
        return stack.toString();
    }

    private record Id(Object value) {}

    /** A bean that expressions see. */
    public static class Plans {
        /** Returns the plan of a user. */
        public String of(String user) {
            return "gold";
        }
    }

    /** A class whose methods have limits. */
    public static class Shop {
        @RateLimit(quotas = "5/1m")
        public void unkeyed() {}

        @RateLimit(quotas = "5/1m", scope = "user")
        public void ofUser() {}

        @RateLimit(quotas = "5/1m", scope = "IP")
        public void ofAddress() {}

        @RateLimit(quotas = "5/1m", scope = "USER", key = " plain ")
        public void plain() {}

        @RateLimit(quotas = "5/1m", key = "#{#id}")
        public void byId(Object id) {}

        @RateLimit("search")
        public void named() {}

        @RateLimit(name = "search", scope = "GLOBAL")
        public void namedGlobal() {}

        @RateLimit(name = "search", scope = "USER")
        public void namedUser() {}

        @RateLimit(name = "search", key = "item-#{#id}")
        public void namedKey(Object id) {}

        @RateLimit(name = "search", key = "#{ {user: #id, tags: {'a', 'b'}} }")
        public void namedMap(Object id) {}

        @RateLimit(name = "search", key = "#{#map}")
        public void byMap(Map<String, ?> map) {}

        @RateLimit(name = "search", key = "#{@plans.of(#user)}")
        public void ofBean(String user) {}

        @RateLimit(name = "search", key = "#{#root.method.name}-#{#root.target.title()}")
        public void ofRoot() {}

        @RateLimit(name = "search", key = "#{#request['tenant']}")
        public void ofRequest() {}

        @RateLimit(name = "search", key = "#{#request}")
        public void ofArgumentRequest(String request) {}

        @RateLimit(name = "search", key = "#{#p0}")
        public void ofIndex(String first) {}

        /** Returns what an expression reads. */
        public String title() {
            return "the shop";
        }
    }
}
