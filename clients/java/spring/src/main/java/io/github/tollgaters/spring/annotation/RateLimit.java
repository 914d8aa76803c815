package io.github.tollgaters.spring.annotation;

import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.concurrent.TimeUnit;
import org.springframework.core.annotation.AliasFor;

/**
 * Limits the calls of a method, or of every public method of a class.
 *
 * <p>With {@link #limit()} and {@link #duration()}, or with {@link #quotas()}, the limit goes with the call, and the
 * service runs with {@code --caller-quotas}. Without them, the policies of the service decide: one of them matches the
 * {@link #name()}, as in {@code match: { action: NAME }}.
 *
 * <p>An annotation of a method replaces that of its class. Both may be on an interface or a superclass, and both may be
 * meta-annotations. What cannot work is an error when the app starts, such as a limit on a private method.
 *
 * <p>A method that calls another one of its own object does not pass through Spring, so that call is not limited.
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.TYPE})
public @interface RateLimit {

    /** The value of a number that is not given. */
    int NOT_GIVEN = Integer.MIN_VALUE;

    /**
     * The name of the check; the same as {@link #name()}.
     *
     * @return the name
     */
    @AliasFor("name")
    String value() default "";

    /**
     * The name of the check. The service sees it as the attribute {@code action}, or as the policy of a limit in the
     * annotation: limits with the same name and the same key count together.
     *
     * <p>A limit in the annotation needs no name. Without one, each method counts by itself.
     *
     * @return the name
     */
    @AliasFor("value")
    String name() default "";

    /**
     * Whom a limit without a {@link #key()} counts: {@code GLOBAL} all callers together, {@code USER} each
     * authenticated user, {@code IP} each address. {@code USER} and {@code IP} need a web request; elsewhere, the call
     * fails. With a key, it is a label.
     *
     * <p>By default, a limit in the annotation counts all callers of the method together. If policies decide, they see
     * the address of a web request as the attribute {@code ip}.
     *
     * @return the scope, in any case
     */
    String scope() default "";

    /**
     * The calls that are allowed in each {@link #duration()}.
     *
     * @return at least 1
     */
    int limit() default NOT_GIVEN;

    /**
     * The length of a window, in {@link #timeUnit()}.
     *
     * @return at least 1, and a whole number of milliseconds
     */
    long duration() default NOT_GIVEN;

    /**
     * The unit of {@link #duration()}.
     *
     * @return the unit
     */
    TimeUnit timeUnit() default TimeUnit.SECONDS;

    /**
     * Limits in the notation of the service, such as {@code "5/1m"} or {@code "100/day@Europe/Berlin"}. All of them
     * hold. They replace {@link #limit()} and {@link #duration()}.
     *
     * @return at most eight limits
     */
    String[] quotas() default {};

    /**
     * What the limit counts by: a text in which <code>#{...}</code> is an expression of Spring, such as
     * <code>#{#userId}</code>. Expressions see the arguments by name, {@code #root.method}, {@code #root.target}, beans
     * such as {@code @plans}, and in web requests {@code #request}.
     *
     * <p>The service sees the text as the attribute {@code key}. An expression that is the whole key may return a map
     * of attributes instead. A key that is null or empty is an error of the app: the call fails.
     *
     * @return the key
     */
    String key() default "";

    /**
     * The type of the bean that resolves the key, instead of {@link #key()}.
     *
     * @return the type; the interface itself stands for the default
     */
    Class<? extends RateLimitKeyResolver> keyResolver() default RateLimitKeyResolver.class;

    /**
     * The units that a call takes: a number, or an expression such as <code>#{#rows.size()}</code>.
     *
     * @return the cost, at least 0
     */
    String cost() default "1";

    /**
     * The method of the same class that is called instead of a denied one. It has the same parameters, or one more, the
     * exception.
     *
     * @return the name of the method
     */
    String fallback() default "";

    /**
     * Whether the limit is enforced. {@code tollgate.policies.NAME.enabled} and {@code tollgate.enabled} switch limits
     * off without a change of code.
     *
     * @return whether it is enforced
     */
    boolean enabled() default true;
}
