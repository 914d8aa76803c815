package io.github.tollgaters.spring.config;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.tollgaters.client.OnFailure;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.MapPropertySource;

class TollgatePropertiesTest {

    @Configuration(proxyBeanMethods = false)
    @EnableConfigurationProperties(TollgateProperties.class)
    static class App {
    }

    private final ApplicationContextRunner runner = new ApplicationContextRunner().withUserConfiguration(App.class);

    private final ApplicationContextRunner app =
            new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(TollgateAutoConfiguration.class));

    private void with(Consumer<TollgateProperties> check, String... properties) {
        runner.withPropertyValues(properties).run(context -> {
            assertThat(context).hasNotFailed();
            check.accept(context.getBean(TollgateProperties.class));
        });
    }

    private void refused(String message, String... properties) {
        runner.withPropertyValues(properties).run(context -> {
            assertThat(context).hasFailed();
            assertThat(context.getStartupFailure()).hasRootCauseMessage(message);
        });
    }

    @Test
    void has_defaults() {
        with(properties -> {
            assertThat(properties.enabled()).isTrue();
            assertThat(properties.url()).isNull();
            assertThat(properties.timeout()).isEqualTo(Duration.ofMillis(250));
            assertThat(properties.onFailure()).isEqualTo(OnFailure.OPEN);
            assertThat(properties.maxConnections()).isEqualTo(64);
            assertThat(properties.includeHttpHeaders()).isTrue();
            assertThat(properties.metricsEnabled()).isTrue();
            assertThat(properties.filters()).isEmpty();
            assertThat(properties.userLimit()).isNull();
        });
    }

    @Test
    void reads_everything() {
        with(properties -> {
            assertThat(properties.onFailure()).isEqualTo(OnFailure.CLOSED);
            assertThat(properties.closedNames()).containsExactly("login", "pay");
            assertThat(properties.isEnabled("search")).isFalse();
            assertThat(properties.isEnabled("other")).isTrue();
            assertThat(properties.problem()).isEqualTo(ProblemBody.STARTER);
            assertThat(properties.toString()).doesNotContain("secret");
            FilterProperties filter = properties.filters().get(0);
            assertThat(filter.effectiveName()).isEqualTo("/api/**");
            assertThat(filter.methods()).containsExactly("GET", "POST");
            assertThat(filter.attributes()).isEqualTo(Map.of("user", "#{principal.name}", "header.x-plan", "free"));
            assertThat(filter.cost()).isEqualTo("2");
            assertThat(filter.headers()).isFalse();
            FilterProperties other = properties.filters().get(1);
            assertThat(other.effectiveName()).isEqualTo("login");
            assertThat(other.quotas()).isEqualTo(List.of("5/1m", "100/1h"));
        }, "tollgate.token=secret", "tollgate.on-failure=closed", "tollgate.closed-names=login,pay",
                "tollgate.policies.search.enabled=false", "tollgate.problem=starter", "tollgate.filters[0].url=/api/**",
                "tollgate.filters[0].methods=get,POST", "tollgate.filters[0].attributes.user=#{principal.name}",
                "tollgate.filters[0].attributes.[header.x-plan]=free", "tollgate.filters[0].cost=2",
                "tollgate.filters[0].headers=false", "tollgate.filters[1].url=/login", "tollgate.filters[1].name=login",
                "tollgate.filters[1].quotas=5/1m,100/1h");
    }

    @Test
    void takes_the_properties_of_the_redis_starter() {
        with(properties -> {
            assertThat(properties.onFailure()).isEqualTo(OnFailure.CLOSED);
            assertThat(properties.includeHttpHeaders()).isFalse();
            assertThat(properties.metricsEnabled()).isFalse();
            assertThat(properties.redisKeyPrefix()).isEqualTo("ratelimiter");
        }, "tollgate.enabled=true", "tollgate.redis-key-prefix=ratelimiter", "tollgate.fail-open=false",
                "tollgate.include-http-headers=false", "tollgate.metrics-enabled=false");
        with(properties -> assertThat(properties.onFailure()).isEqualTo(OnFailure.OPEN), "tollgate.fail-open=true");
        with(properties -> assertThat(properties.onFailure()).isEqualTo(OnFailure.CLOSED),
                "tollgate.fail-open=false", "tollgate.on-failure=closed");
    }

    @ParameterizedTest
    @CsvSource({
        "fixed-window-algo, 60, 5, 5/60s",
        "sliding-window-algo, 60, 5, 5/60s~log",
        "sliding-window-algo, 60, 256, 256/60s~log",
        "sliding-window-algo, 60, 1000, 1000/60s~log:500ms",
        "sliding-window-algo, 3600, 1000, 1000/3600s~log:15000ms",
        "sliding-window-algo, 315360000, 1000, 1000/315360000s~log:1296000000ms",
        "fixed-window-algo, 1, 0, 0/1s"
    })
    void takes_the_properties_of_rlaas(String algorithm, String window, String limit, String quota) {
        with(properties -> assertThat(properties.userLimit().quota()).isEqualTo(quota), "tollgate.use-algo=" + algorithm,
                "tollgate.window-size=" + window, "tollgate.max-requests=" + limit);
    }

    @Test
    void refuses_what_contradicts_itself() {
        refused("tollgate.fail-open is true, but tollgate.on-failure is closed: remove one of them",
                "tollgate.fail-open=true", "tollgate.on-failure=closed");
        refused("tollgate.use-algo is the unknown algorithm `leaky`: expected fixed-window-algo or sliding-window-algo",
                "tollgate.use-algo=leaky", "tollgate.window-size=60", "tollgate.max-requests=5");
        refused("tollgate.window-size must be a number of seconds from 1 to 315360000, because tollgate.use-algo is set",
                "tollgate.use-algo=fixed-window-algo", "tollgate.window-size=0", "tollgate.max-requests=5");
        refused("tollgate.max-requests must be a number from 0 to 1099511627775, because tollgate.use-algo is "
                + "fixed-window-algo", "tollgate.use-algo=fixed-window-algo", "tollgate.window-size=1");
        refused("tollgate.window-size has no effect without tollgate.use-algo: fixed-window-algo or sliding-window-algo",
                "tollgate.window-size=60");
        refused("tollgate.filters[1].quotas differ from those of filters[0], which has the same name and so is the same "
                + "limit: give one of them another name", "tollgate.filters[0].url=/a", "tollgate.filters[0].name=x",
                "tollgate.filters[1].url=/b", "tollgate.filters[1].name=x", "tollgate.filters[1].quotas=1/1m");
    }

    @Test
    void refuses_names_that_are_taken() {
        refused("tollgate.filters[0].attributes.prefix is taken by tollgate.redis-key-prefix: rename one of them",
                "tollgate.redis-key-prefix=x", "tollgate.filters[0].url=/a", "tollgate.filters[0].name=a",
                "tollgate.filters[0].quotas=1/1m", "tollgate.filters[0].attributes.prefix=y");
        refused("tollgate.filters[0].name is taken by tollgate.use-algo: give the filter another name",
                "tollgate.use-algo=fixed-window-algo", "tollgate.window-size=1", "tollgate.max-requests=1",
                "tollgate.filters[0].url=/a", "tollgate.filters[0].name=rlaas");
        refused("tollgate.filters[0].key is also tollgate.filters[0].attributes.key: remove one of them",
                "tollgate.filters[0].url=/a", "tollgate.filters[0].key=x", "tollgate.filters[0].attributes.key=y");
    }

    @Test
    void refuses_wrong_values_by_name() {
        refused("tollgate.timeout must be from 1ms to 60s", "tollgate.timeout=61s");
        refused("tollgate.max-connections must be at least 1", "tollgate.max-connections=0");
        refused("tollgate.filters[0].url is missing: write a pattern such as /api/**, or /** for every path",
                "tollgate.filters[0].name=x");
        refused("tollgate.filters[0].url must begin with a slash: it is a path pattern such as /api/**, and no regular "
                + "expression", "tollgate.filters[0].url=.*");
        refused("tollgate.filters[0].methods has the unknown method `GTE`", "tollgate.filters[0].url=/a",
                "tollgate.filters[0].methods=GTE");
        refused("tollgate.filters[0].name is missing, but needed for quotas: 1 to 64 letters, digits, `-`, `_` and `.`",
                "tollgate.filters[0].url=/a", "tollgate.filters[0].quotas=1/1m");
        refused("tollgate.filters[0].attributes.user is empty; if it is an expression, put it between quotes, because "
                + "YAML takes a bare # as the beginning of a comment",
                "tollgate.filters[0].url=/a", "tollgate.filters[0].attributes.user=");
        refused("tollgate.filters[0].attributes.action is the name of the check: use tollgate.filters[0].name",
                "tollgate.filters[0].url=/a", "tollgate.filters[0].attributes.action=x");
    }

    @ParameterizedTest
    @CsvSource(quoteCharacter = '"', value = {
        "tollgate.url=127.0.0.1:8080, tollgate.url begins neither with http:// nor https:// nor unix:/; it is http://HOST:PORT",
        "tollgate.url=http://secret@127.0.0.1:1/, tollgate.url has a user",
        "tollgate.url=http://127.0.0.1:8080/v1, tollgate.url has a path; it is http://HOST:PORT",
        "tollgate.token=sec ret, tollgate.token has a character that a header cannot have",
        "tollgate.token=, tollgate.token is empty",
        "tollgate.max-connections=70000, tollgate.max-connections is 70000",
        "tollgate.timeout=0, tollgate.timeout must be from 1ms to 60s"
    })
    void names_the_property_if_an_app_does_not_start(String property, String description) {
        app.withPropertyValues(property).run(context -> {
            FailureAnalysis analysis = new InvalidPropertyFailureAnalyzer().analyze(context.getStartupFailure());
            assertThat(analysis).isNotNull();
            assertThat(analysis.getDescription()).startsWith(description).doesNotContain("sec");
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "tollgate.filters[0].polcy", "tollgate.ulr", "tollgate.policies.a.limit", "tollgate.url.x", "tollgate.filters.url",
        "tollgate.filters[0].url.x", "tollgate.filters[0].quotas.x", "tollgate.closed-names[0].x", "tollgate.Ulr"
    })
    void refuses_unknown_properties(String unknown) {
        app.withPropertyValues(unknown + "=x")
                .run(context -> assertThat(context).getFailure()
                        .isInstanceOf(InvalidPropertyException.class)
                        .hasMessage(unknown + " is no property of Tollgate"));
    }

    @Test
    void refuses_names_of_which_spring_boot_drops_characters() {
        app.withPropertyValues("tollgate.filters[0].url=/a", "tollgate.filters[0].attributes.user_id=x")
                .run(context -> assertThat(context).getFailure().hasMessage("tollgate.filters[0].attributes.user_id has a "
                        + "character in `user_id` that Spring Boot drops: write [user_id], between quotes in YAML"));
        app.withPropertyValues("tollgate.policies./login.enabled=false")
                .run(context -> assertThat(context).getFailure().hasMessageContaining("write [/login]"));
        app.withPropertyValues("tollgate.policies.a.b.enabled=false")
                .run(context -> assertThat(context).getFailure().hasMessageContaining("write [a.b]"));
        app.withPropertyValues("tollgate.policies.[a.b/c].enabled=false", "tollgate.filters[0].url=/a",
                        "tollgate.filters[0].attributes.[user_id]=x", "tollgate.filters[0].attributes.header.x-plan=free")
                .run(context -> {
                    TollgateProperties properties = context.getBean(TollgateProperties.class);
                    assertThat(properties.isEnabled("a.b/c")).isFalse();
                    assertThat(properties.filters().get(0).attributes())
                            .isEqualTo(Map.of("user_id", "x", "header.x-plan", "free"));
                });
    }

    @Test
    void takes_a_list_of_filters_that_replaces_a_longer_one() {
        app.withInitializer(context -> context.getEnvironment().getPropertySources().addLast(new MapPropertySource(
                        "base", Map.of("tollgate.filters[0].url", "/a", "tollgate.filters[1].url", "/b",
                                "tollgate.filters[1].name", "b", "tollgate.filters[1].quotas[0]", "1/1m"))))
                .withPropertyValues("tollgate.filters[0].url=/c")
                .run(context -> assertThat(context.getBean(TollgateProperties.class).filters())
                        .extracting(FilterProperties::url).containsExactly("/c"));
    }

    @Test
    void refuses_an_unknown_property_of_the_system() {
        app.withSystemProperties("tollgate.on-failur=closed").run(context -> assertThat(context).getFailure()
                .hasMessage("tollgate.on-failur is no property of Tollgate"));
    }

    @Test
    void takes_names_in_every_form() {
        app.withPropertyValues("tollgate.onFailure=closed", "tollgate.max_connections=3", "tollgate.filters=")
                .run(context -> {
                    assertThat(context.getBean(TollgateProperties.class).onFailure()).isEqualTo(OnFailure.CLOSED);
                    assertThat(context.getBean(TollgateProperties.class).maxConnections()).isEqualTo(3);
                });
    }
}
