package io.github.tollgaters.spring.support;

import io.github.tollgaters.spring.core.RateLimitContext;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.expression.BeanResolver;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.LiteralExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** An attribute of an annotation: a text in which <code>#{...}</code> is an expression. It is parsed once. */
public final class AnnotationExpression {

    private static final ParameterNameDiscoverer NAMES = new DefaultParameterNameDiscoverer();
    private static final TemplateParserContext TEMPLATE = new TemplateParserContext("#{", "}");
    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final String REQUEST = "request";
    private static final String KEY = "key";

    private final String place;
    private final List<Expression> parts;
    private final boolean usesRequest;
    private final boolean requestIsParameter;

    private AnnotationExpression(String place, List<Expression> parts, Set<String> parameters) {
        this.place = place;
        this.parts = parts;
        this.requestIsParameter = parameters.contains(REQUEST);
        this.usesRequest = !requestIsParameter && parts.stream().anyMatch(part -> variables(part).contains(REQUEST));
    }

    /**
     * Parses an attribute.
     *
     * @param attribute the name of the attribute, for errors
     * @param text the text
     * @param method the method whose arguments the text names
     * @param targetClass the class of the bean
     * @return the expression
     * @throws IllegalArgumentException if the text is no expression, or names an argument that does not exist
     */
    public static AnnotationExpression parse(String attribute, String text, Method method, Class<?> targetClass) {
        String place = Places.of(method, targetClass) + ": " + attribute;
        String trimmed = text.trim();
        if (trimmed.matches("[#@][^{].*")) {
            throw new IllegalArgumentException(
                    place + " = \"" + text + "\": an expression is written in braces: \"#{" + trimmed + "}\"");
        }
        List<Expression> parts = partsOf(place, trimmed);
        Set<String> parameters = parameters(method);
        for (Expression part : parts) {
            checkVariables(place, part, method, parameters);
        }
        AnnotationExpression expression = new AnnotationExpression(place, parts, parameters);
        if (attribute.equals(KEY) && expression.isPlain()) {
            PlainKeys.doubt(trimmed, parameters, "#").ifPresent(doubt -> {
                throw new IllegalArgumentException(place + " = \"" + text + "\" " + doubt);
            });
        }
        return expression;
    }

    private static List<Expression> partsOf(String place, String text) {
        try {
            Expression whole = PARSER.parseExpression(text, TEMPLATE);
            return whole instanceof CompositeStringExpression composite
                    ? List.of(composite.getExpressions())
                    : List.of(whole);
        } catch (ParseException | IllegalStateException e) {
            throw new IllegalArgumentException(place + " = \"" + text + "\": " + e.getMessage(), e);
        }
    }

    private static Set<String> parameters(Method method) {
        String[] names = NAMES.getParameterNames(method);
        return names == null ? Set.of() : new HashSet<>(Arrays.asList(names));
    }

    private static void checkVariables(String place, Expression part, Method method, Set<String> parameters) {
        for (String variable : variables(part)) {
            boolean known = variable.equals("root")
                    || variable.equals("this")
                    || variable.equals(REQUEST)
                    || parameters.contains(variable)
                    || isIndex(variable, method.getParameterCount());
            if (known) {
                continue;
            }
            String why = parameters.isEmpty() && method.getParameterCount() > 0
                    ? "the class has no names of parameters; compile it with -parameters, or write #p0"
                    : "the method has no parameter of that name; it has " + parameters;
            throw new IllegalArgumentException(place + ": #" + variable + ": " + why);
        }
    }

    private static boolean isIndex(String variable, int count) {
        return variable.matches("[ap][0-9]{1,3}") && Integer.parseInt(variable.substring(1)) < count;
    }

    private static Set<String> variables(Expression part) {
        Set<String> found = new HashSet<>();
        if (part instanceof SpelExpression expression) {
            collectVariables(expression.getAST(), found);
        }
        return found;
    }

    private static void collectVariables(SpelNode node, Set<String> found) {
        if (node instanceof VariableReference) {
            found.add(node.toStringAST().substring(1));
        }
        for (int child = 0; child < node.getChildCount(); child++) {
            collectVariables(node.getChild(child), found);
        }
    }

    /**
     * Says whether the text has no expression.
     *
     * @return whether it is a plain text
     */
    public boolean isPlain() {
        return parts.stream().allMatch(LiteralExpression.class::isInstance);
    }

    /**
     * Says whether an expression is the whole text, so that its value may be of any type.
     *
     * @return whether it is
     */
    public boolean isSingle() {
        return parts.size() == 1;
    }

    /**
     * Returns the place for errors.
     *
     * @return the method and the attribute
     */
    public String place() {
        return place;
    }

    /**
     * Returns the values of the parts: those of the expressions, and the texts between them.
     *
     * @param context the call
     * @param beans where beans are found, or null
     * @return the values, some of which may be null
     * @throws IllegalStateException if an expression fails
     */
    public List<Object> values(RateLimitContext context, BeanResolver beans) {
        Optional<Object> request = context.getCaller().map(caller -> caller.getRequest());
        if (usesRequest && request.isEmpty()) {
            throw new IllegalStateException(place + ": #request is used outside of a web request");
        }
        MethodBasedEvaluationContext evaluation = new MethodBasedEvaluationContext(
                Root.of(context), context.getMethod(), context.getArguments(), NAMES);
        evaluation.setBeanResolver(beans);
        if (!requestIsParameter) {
            request.ifPresent(value -> evaluation.setVariable(REQUEST, value));
        }
        List<Object> values = new ArrayList<>(parts.size());
        for (Expression part : parts) {
            try {
                values.add(part.getValue(evaluation));
            } catch (RuntimeException e) {
                // Spring throws what a method throws as it is.
                throw ExpressionFailure.of(place + ": the expression failed", e);
            }
        }
        return values;
    }

    /**
     * What expressions see as {@code #root}.
     *
     * @param method the method
     * @param target the bean
     * @param targetClass its class
     * @param args the arguments
     */
    public record Root(Method method, Object target, Class<?> targetClass, Object[] args) {

        static Root of(RateLimitContext context) {
            return new Root(
                    context.getMethod(), context.getTarget(), context.getTargetClass(), context.getArguments());
        }

        /**
         * Returns the method.
         *
         * @return the method
         */
        public Method getMethod() {
            return method;
        }

        /**
         * Returns the bean.
         *
         * @return the bean
         */
        public Object getTarget() {
            return target;
        }

        /**
         * Returns the class of the bean.
         *
         * @return the class
         */
        public Class<?> getTargetClass() {
            return targetClass;
        }

        /**
         * Returns the arguments.
         *
         * @return the arguments
         */
        public Object[] getArgs() {
            return args;
        }
    }
}
