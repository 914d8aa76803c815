package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.exception.RateLimiterBackendException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/** A method that is called instead of a denied one. */
final class Fallback {

    private final Method method;
    private final boolean takesError;

    private Fallback(Method method, boolean takesError) {
        this.method = method;
        this.takesError = takesError;
    }

    /** Finds the fallback of a method in the class of the bean. */
    static Fallback find(String place, String name, Method limited, Class<?> targetClass) {
        List<Method> named = new ArrayList<>();
        for (Method method : ReflectionUtils.getUniqueDeclaredMethods(targetClass)) {
            if (method.getName().equals(name) && !method.isBridge() && !method.equals(limited)) {
                named.add(method);
            }
        }
        List<Method> fitting = named.stream().filter(method -> fits(method, limited)).toList();
        String where = place + ": fallback = \"" + name + "\": ";
        if (fitting.size() > 1) {
            throw new IllegalArgumentException(where + "several methods fit: " + fitting);
        }
        if (fitting.isEmpty()) {
            throw new IllegalArgumentException(where + (named.isEmpty()
                    ? targetClass.getName() + " has no such method"
                    : "it needs the parameters " + types(limited) + ", optionally one more for the exception, "
                            + "and the same result; there is " + named));
        }
        Method method = fitting.get(0);
        ReflectionUtils.makeAccessible(method);
        return new Fallback(method, method.getParameterCount() > limited.getParameterCount());
    }

    private static String types(Method method) {
        return Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName).toList().toString();
    }

    private static boolean fits(Method method, Method limited) {
        Class<?>[] own = method.getParameterTypes();
        Class<?>[] wanted = limited.getParameterTypes();
        boolean same = own.length == wanted.length && Arrays.equals(own, wanted);
        boolean oneMore = own.length == wanted.length + 1
                && Arrays.equals(Arrays.copyOf(own, wanted.length), wanted)
                && isError(own[wanted.length]);
        boolean result = limited.getReturnType() == void.class
                ? method.getReturnType() == void.class
                : ClassUtils.isAssignable(limited.getReturnType(), method.getReturnType());
        boolean callable = !Modifier.isStatic(limited.getModifiers());
        return (same || oneMore) && result && callable;
    }

    private static boolean isError(Class<?> type) {
        return type.isAssignableFrom(RateLimitExceededException.class)
                && Throwable.class.isAssignableFrom(type)
                || type == RateLimiterBackendException.class;
    }

    /** Says whether the fallback is for an error: of the kind that it takes, or without a parameter for both. */
    boolean accepts(Throwable error) {
        boolean refused = error instanceof RateLimitExceededException || error instanceof RateLimiterBackendException;
        return refused && (!takesError || errorType().isInstance(error));
    }

    private Class<?> errorType() {
        return method.getParameterTypes()[method.getParameterCount() - 1];
    }

    /** Calls the fallback on the bean itself. */
    Object call(Object target, Object[] arguments, Throwable error) throws Throwable {
        Object[] all = arguments;
        if (takesError) {
            all = Arrays.copyOf(arguments, arguments.length + 1);
            all[arguments.length] = error;
        }
        try {
            return method.invoke(Modifier.isStatic(method.getModifiers()) ? null : target, all);
        } catch (InvocationTargetException e) {
            throw e.getTargetException();
        }
    }
}
