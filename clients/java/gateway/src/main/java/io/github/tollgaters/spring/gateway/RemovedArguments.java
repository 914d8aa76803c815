package io.github.tollgaters.spring.gateway;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.cloud.gateway.config.GatewayProperties;
import org.springframework.cloud.gateway.event.RefreshRoutesResultEvent;
import org.springframework.cloud.gateway.filter.FilterDefinition;
import org.springframework.cloud.gateway.route.RouteDefinition;
import org.springframework.cloud.gateway.route.RouteDefinitionLocator;
import org.springframework.context.ApplicationListener;
import reactor.core.publisher.Mono;

/**
 * Forgets the arguments of routes that have none any more, and of routes that were deleted. The gateway tells of
 * arguments, but not of their end.
 */
final class RemovedArguments implements ApplicationListener<RefreshRoutesResultEvent> {
    private final ObjectProvider<TollgateRateLimiter> limiters;
    private final ObjectProvider<RouteDefinitionLocator> routes;
    private final ObjectProvider<GatewayProperties> properties;

    RemovedArguments(
            ObjectProvider<TollgateRateLimiter> limiters,
            ObjectProvider<RouteDefinitionLocator> routes,
            ObjectProvider<GatewayProperties> properties) {
        this.limiters = limiters;
        this.routes = routes;
        this.properties = properties;
    }

    @Override
    public void onApplicationEvent(RefreshRoutesResultEvent event) {
        RouteDefinitionLocator locator = routes.getIfUnique();
        if (event.isSuccess() && locator != null) {
            limiters.forEach(limiter -> forget(limiter, locator));
        }
    }

    private void forget(TollgateRateLimiter limiter, RouteDefinitionLocator locator) {
        // Another refresh may put a configuration meanwhile; only one that is here now is removed.
        Map<String, TollgateRateLimiter.Config> before = limiter.configurationsOfArguments();
        if (before.isEmpty()) {
            return;
        }
        boolean byDefault = properties.stream().anyMatch(all -> haveArguments(all.getDefaultFilters()));
        locator.getRouteDefinitions()
                .filter(route -> byDefault || haveArguments(route.getFilters()))
                .map(RouteDefinition::getId)
                .collect(Collectors.toSet())
                // The next refresh asks again.
                .onErrorResume(error -> Mono.empty())
                .subscribe(routesWithArguments -> before.forEach((route, config) -> {
                    if (!routesWithArguments.contains(route)) {
                        limiter.forget(route, config);
                    }
                }));
    }

    private static boolean haveArguments(List<FilterDefinition> filters) {
        return filters.stream()
                .flatMap(filter -> filter.getArgs().keySet().stream())
                .anyMatch(argument -> argument.startsWith(TollgateRateLimiter.PREFIX));
    }
}
