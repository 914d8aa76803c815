package io.github.tollgaters.spring.gateway;

import static org.assertj.core.api.Assertions.assertThat;

import java.net.URI;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.cloud.gateway.event.RefreshRoutesEvent;
import org.springframework.cloud.gateway.filter.FilterDefinition;
import org.springframework.cloud.gateway.handler.predicate.PredicateDefinition;
import org.springframework.cloud.gateway.route.RouteDefinition;
import org.springframework.cloud.gateway.route.RouteDefinitionWriter;
import reactor.core.publisher.Mono;

class RemovedArgumentsTest {

    @Test
    void aRefreshForgetsArgumentsThatARouteNoLongerHas() throws Exception {
        String yaml = """
                spring.cloud.gateway.server.webflux:
                  routes:
                  - id: search
                    uri: UPSTREAM
                    predicates: [Path=/search]
                    filters:
                    - name: RequestRateLimiter
                      args: { tollgate.cost: 2 }
                """;
        try (Servers servers = new Servers();
                Gateway gateway = new Gateway(
                        servers.service("--limit", "1000/1h", "--caller-quotas").url(),
                        yaml,
                        TollgateRateLimiterTest.Routes.class)) {
            save(gateway, Map.of("tollgate.name", "special"));
            assertThat(configurations(gateway)).containsOnlyKeys("java", "orders", "search");
            save(gateway, Map.of("tollgate.cost", "2"));
            assertThat(configurations(gateway).get("orders").getName()).isNull();
            save(gateway, Map.of("deny-empty-key", "true"));
            assertThat(configurations(gateway)).containsOnlyKeys("java", "search");
            save(gateway, Map.of("tollgate.name", "special"));
            gateway.context.getBean(RouteDefinitionWriter.class).delete(Mono.just("orders")).block();
            gateway.context.publishEvent(new RefreshRoutesEvent(this));
            assertThat(configurations(gateway)).containsOnlyKeys("java", "search");
        }
    }

    private static Map<String, TollgateRateLimiter.Config> configurations(Gateway gateway) {
        return gateway.context.getBean(TollgateRateLimiter.class).getConfig();
    }

    private void save(Gateway gateway, Map<String, String> arguments) {
        FilterDefinition filter = new FilterDefinition();
        filter.setName("RequestRateLimiter");
        filter.setArgs(arguments);
        RouteDefinition route = new RouteDefinition();
        route.setId("orders");
        route.setUri(URI.create("no://op"));
        route.setPredicates(List.of(new PredicateDefinition("Path=/orders")));
        route.setFilters(List.of(filter));
        gateway.context.getBean(RouteDefinitionWriter.class).save(Mono.just(route)).block();
        gateway.context.publishEvent(new RefreshRoutesEvent(this));
    }
}
