package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.config.FilterProperties;
import io.github.tollgaters.spring.config.TollgateProperties;
import io.github.tollgaters.spring.config.UserLimit;
import io.github.tollgaters.spring.support.LimitInCall;
import io.github.tollgaters.spring.support.LimitSource;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.expression.EvaluationContext;

/** The limits of URLs of an app, in the order in which they are asked. */
public final class UrlFilters implements LimitSource {

    private final List<UrlFilter> filters;

    /**
     * Reads the limits.
     *
     * @param properties the properties
     * @param beans the beans that expressions see
     * @throws IllegalArgumentException if one is wrong; the message names the property
     */
    public UrlFilters(TollgateProperties properties, BeanFactory beans) {
        Function<FilterRequest, EvaluationContext> contexts = FilterVariables.contexts(beans);
        List<FilterProperties> all = properties.filters();
        Map<Integer, List<UrlFilter>> byOrder = new TreeMap<>(Comparator.naturalOrder());
        for (int index = 0; index < all.size(); index++) {
            FilterProperties filter = all.get(index);
            UrlFilter read = UrlFilter.of(
                    filter, "tollgate.filters[" + index + "]", properties, contexts);
            if (filter.enabled() && properties.isEnabled(filter.effectiveName())) {
                byOrder.computeIfAbsent(filter.order(), order -> new ArrayList<>()).add(read);
            }
        }
        List<UrlFilter> sorted = new ArrayList<>();
        byOrder.values().forEach(sorted::addAll);
        UserLimit users = properties.userLimit();
        if (users != null && properties.isEnabled(UserLimit.NAME)) {
            sorted.add(0, UrlFilter.of(users, properties, contexts));
        }
        this.filters = List.copyOf(sorted);
    }

    /**
     * Returns whether there is no limit.
     *
     * @return whether there is none
     */
    public boolean isEmpty() {
        return filters.isEmpty();
    }

    @Override
    public String limited() {
        return filters.size() + (filters.size() == 1 ? " filter" : " filters");
    }

    @Override
    public List<LimitInCall> limitsInCalls() {
        return filters.stream()
                .filter(filter -> !filter.policy().getQuotas().isEmpty())
                .map(filter -> new LimitInCall(filter.property(), filter.name(), filter.policy().getQuotas()))
                .toList();
    }

    /**
     * Returns the limits of a request, in their order. Those with the same name are one limit, so only the first of them
     * counts a request: the caller keeps the names of those that did.
     *
     * @param request the request
     * @return the limits
     */
    public List<UrlFilter> matching(FilterRequest request) {
        return filters.stream().filter(filter -> filter.matches(request)).toList();
    }
}
