package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.config.InvalidPropertyException;
import io.github.tollgaters.spring.support.ExpressionFailure;
import io.github.tollgaters.spring.support.PlainKeys;
import java.util.List;
import java.util.regex.Pattern;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.LiteralExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** A text of a property, in which {@code #{...}} is an expression. */
final class FilterExpression {

    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final TemplateParserContext TEMPLATE = new TemplateParserContext("#{", "}");

    private static final Pattern PRINCIPAL = Pattern.compile("[Pp]rincipal|#root|#this");

    private final String property;
    private final List<Expression> parts;

    private FilterExpression(String property, List<Expression> parts) {
        this.property = property;
        this.parts = parts;
    }

    /** Reads a text; an error names the property. */
    static FilterExpression parse(String text, String property) {
        if (text.startsWith("@") || (text.startsWith("#") && !text.startsWith("#{"))) {
            throw new InvalidPropertyException(
                    property, "`" + text + "` looks like an expression: write #{" + text + "}", null);
        }
        Expression expression;
        try {
            expression = PARSER.parseExpression(text, TEMPLATE);
        } catch (ParseException error) {
            throw new InvalidPropertyException(
                    property, "`" + text + "` is no expression: " + error.getMessage(), error);
        }
        return new FilterExpression(property, expression instanceof CompositeStringExpression composite
                ? List.of(composite.getExpressions())
                : List.of(expression));
    }

    /** Reads a key or another attribute: a text that reads like an expression is refused. */
    static FilterExpression parseKey(String text, String property) {
        FilterExpression expression = parse(text, property);
        if (expression.isPlain()) {
            PlainKeys.doubt(text, FilterVariables.NAMES, "").ifPresent(doubt -> {
                throw new InvalidPropertyException(property, "`" + text + "` " + doubt, null);
            });
        }
        return expression;
    }

    /** Returns whether the text has no expression in it, so that its value is always the same. */
    boolean isPlain() {
        return parts.stream().allMatch(LiteralExpression.class::isInstance);
    }

    /** Returns whether the text is one expression and nothing else, so that its value can be other than a text. */
    boolean isSingle() {
        return parts.size() == 1 && !isPlain();
    }

    /** Returns whether the value may depend on the principal: the name is in the text, or all of the request is. */
    boolean mayReadPrincipal() {
        return parts.stream()
                .filter(part -> !(part instanceof LiteralExpression))
                .anyMatch(part -> PRINCIPAL.matcher(part.getExpressionString()).find());
    }

    String property() {
        return property;
    }

    /** Returns the value, never null: what has none, also in a part of a text, is an error of the app. */
    Object evaluate(EvaluationContext context) {
        if (parts.size() == 1) {
            return part(parts.get(0), context);
        }
        StringBuilder text = new StringBuilder();
        for (Expression part : parts) {
            text.append(part(part, context));
        }
        return text.toString();
    }

    private Object part(Expression part, EvaluationContext context) {
        Object value;
        try {
            value = part.getValue(context);
        } catch (RuntimeException error) {
            // Spring throws what a method throws as it is.
            String problem = "failed in #{" + part.getExpressionString() + "}";
            throw new FilterException(property, problem, ExpressionFailure.of(property + " " + problem, error));
        }
        if (value == null) {
            throw new FilterException(property, "has no value in #{" + part.getExpressionString()
                    + "}, so nobody can be counted; give it a default with `?:`", null);
        }
        return value;
    }
}
