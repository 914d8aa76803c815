package io.github.tollgaters.spring.reactive;

import java.lang.reflect.Method;

/**
 * Limits methods whose result comes later, such as a {@code Mono}. The check belongs to each subscription, and no
 * thread waits for it.
 *
 * <p>It is a bean only if Reactor is on the class path. Methods that it does not support are checked before they are
 * called.
 */
public interface ReactiveSupport {

    /**
     * Says whether this bean runs the limits of a method. It is asked once for each method.
     *
     * @param method the method of the bean
     * @return whether it does
     */
    boolean supports(Method method);

    /**
     * Returns what a limited method returns: a result that checks the limit when somebody subscribes.
     *
     * @param invocation the call of a method that is supported
     * @return the result
     */
    Object invoke(ReactiveInvocation invocation);

    /**
     * Says whether this thread may wait for a check. Event loops must not: they serve many callers.
     *
     * @return whether it may
     */
    default boolean mayWait() {
        return true;
    }
}
