package io.github.tollgaters.spring.support;

import io.github.tollgaters.spring.core.RateLimitContext;
import java.lang.reflect.Method;
import java.math.BigInteger;
import org.springframework.expression.BeanResolver;

/** The cost of a call: a number, or an expression that returns one. */
public final class CostExpression {

    private static final BigInteger MOST = BigInteger.valueOf((1L << 32) - 1);

    private final String place;
    private final long fixed;
    private final AnnotationExpression expression;

    private CostExpression(String place, long fixed, AnnotationExpression expression) {
        this.place = place;
        this.fixed = fixed;
        this.expression = expression;
    }

    /**
     * Parses a cost.
     *
     * @param text a number from 0 to 2^32-1, or an expression in <code>#{...}</code>
     * @param method the method whose arguments the text names
     * @param targetClass the class of the bean
     * @return the cost
     * @throws IllegalArgumentException if the text is neither
     */
    public static CostExpression parse(String text, Method method, Class<?> targetClass) {
        AnnotationExpression expression = AnnotationExpression.parse("cost", text, method, targetClass);
        if (!expression.isPlain()) {
            if (!expression.isSingle()) {
                throw new IllegalArgumentException(expression.place() + " = \"" + text
                        + "\": a cost is a number, or one expression and nothing else");
            }
            return new CostExpression(expression.place(), 0, expression);
        }
        if (!text.trim().matches("[0-9]{1,18}") || Long.parseLong(text.trim()) > MOST.longValueExact()) {
            throw new IllegalArgumentException(
                    expression.place() + " = \"" + text + "\": a cost is a whole number from 0 to " + MOST);
        }
        return new CostExpression(expression.place(), Long.parseLong(text.trim()), null);
    }

    /**
     * Returns the cost of a call.
     *
     * @param context the call
     * @param beans where beans are found, or null
     * @return the units
     * @throws IllegalStateException if the expression fails, or returns no whole number from 0 to 2^32-1
     */
    public long valueOf(RateLimitContext context, BeanResolver beans) {
        if (expression == null) {
            return fixed;
        }
        Object value = expression.values(context, beans).get(0);
        BigInteger number;
        if (value instanceof BigInteger big) {
            number = big;
        } else if (value instanceof Long
                || value instanceof Integer
                || value instanceof Short
                || value instanceof Byte) {
            number = BigInteger.valueOf(((Number) value).longValue());
        } else {
            String type = value == null ? "null" : "a " + value.getClass().getName();
            throw new IllegalStateException(place + ": the expression returned " + type + ", and no whole number");
        }
        if (number.signum() < 0 || number.compareTo(MOST) > 0) {
            throw new IllegalStateException(place + ": the expression returned " + number + ", not 0 to " + MOST);
        }
        return number.longValue();
    }
}
