package io.github.tollgaters.spring.filter;

import java.security.Principal;
import java.util.AbstractMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.spel.support.StandardEvaluationContext;

/** What expressions of filters see: these properties, the same as variables, and the beans of the app. */
public final class FilterVariables {

    static final Set<String> NAMES = Set.of("request", "principal", "headers", "params", "ip");

    private final FilterRequest request;
    private final Map<String, String> headers;
    private final Map<String, String> params;

    private FilterVariables(FilterRequest request) {
        this.request = request;
        this.headers = new Lookup(request::header);
        this.params = new Lookup(request::param);
    }

    /** Makes contexts for requests; they share what was learned about the types of the app. */
    static Function<FilterRequest, EvaluationContext> contexts(BeanFactory beans) {
        StandardEvaluationContext shared = new StandardEvaluationContext();
        BeanFactoryResolver resolver = new BeanFactoryResolver(beans);
        return request -> {
            FilterVariables variables = new FilterVariables(request);
            StandardEvaluationContext context = new StandardEvaluationContext(variables) {
                @Override
                public Object lookupVariable(String name) {
                    return variables.lookup(name, super::lookupVariable);
                }
            };
            shared.applyDelegatesTo(context);
            context.setBeanResolver(resolver);
            return context;
        };
    }

    /** A variable is looked up when an expression reads it: the principal may be in a session far away. */
    private Object lookup(String name, Function<String, Object> others) {
        return switch (name) {
            case "request" -> getRequest();
            case "principal" -> getPrincipal();
            case "headers" -> getHeaders();
            case "params" -> getParams();
            case "ip" -> getIp();
            default -> others.apply(name);
        };
    }

    /**
     * Returns the request of the framework.
     *
     * @return an HttpServletRequest or a ServerHttpRequest
     */
    public Object getRequest() {
        return request.request();
    }

    /**
     * Returns who is logged in.
     *
     * @return the principal, or null
     */
    public Principal getPrincipal() {
        return request.principal();
    }

    /**
     * Returns the first value of each header, by its name in any case.
     *
     * @return the headers; a name without a header has the value null
     */
    public Map<String, String> getHeaders() {
        return headers;
    }

    /**
     * Returns the first value of each parameter.
     *
     * @return the parameters; a name without a parameter has the value null
     */
    public Map<String, String> getParams() {
        return params;
    }

    /**
     * Returns the address of the client.
     *
     * @return the address, or null
     */
    public String getIp() {
        return request.address();
    }

    /** A map that only looks names up. */
    private static final class Lookup extends AbstractMap<String, String> {

        private final Function<String, String> values;

        Lookup(Function<String, String> values) {
            this.values = values;
        }

        @Override
        public String get(Object name) {
            return name instanceof String text ? values.apply(text) : null;
        }

        @Override
        public boolean containsKey(Object name) {
            return get(name) != null;
        }

        @Override
        public Set<Entry<String, String>> entrySet() {
            throw new UnsupportedOperationException("headers and params are looked up by name: headers['x-user']");
        }

        @Override
        public String toString() {
            return "{...}";
        }
    }
}
