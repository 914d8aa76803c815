package io.github.tollgaters.spring.support;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.springframework.util.ClassUtils;

/** Names of methods, for errors and for counters. */
public final class Places {

    private Places() {}

    /**
     * Returns a text for errors.
     *
     * @param method the method
     * @param targetClass the class of the bean
     * @return a text such as <code>@RateLimit of com.example.Shop#search(String)</code>
     */
    public static String of(Method method, Class<?> targetClass) {
        String parameters = Arrays.stream(method.getParameterTypes())
                .map(Class::getSimpleName)
                .collect(Collectors.joining(", "));
        return "@RateLimit of " + className(method, targetClass) + "#" + method.getName() + "(" + parameters + ")";
    }

    /**
     * Returns a name that is the same in all processes of an app. Overloads have the same.
     *
     * @param method the method
     * @param targetClass the class of the bean
     * @return a text such as {@code com.example.Shop#search}
     */
    public static String nameOf(Method method, Class<?> targetClass) {
        return className(method, targetClass) + "#" + method.getName();
    }

    /**
     * Returns a short name for metrics.
     *
     * @param method the method
     * @param targetClass the class of the bean
     * @return a text such as {@code Shop#search}
     */
    public static String shortNameOf(Method method, Class<?> targetClass) {
        return stableClass(method, targetClass).getSimpleName() + "#" + method.getName();
    }

    private static String className(Method method, Class<?> targetClass) {
        return stableClass(method, targetClass).getName();
    }

    /** The classes of proxies and lambdas are named by chance, so that their counters would not be shared. */
    private static Class<?> stableClass(Method method, Class<?> targetClass) {
        Class<?> userClass = ClassUtils.getUserClass(targetClass);
        if (!Proxy.isProxyClass(userClass) && !userClass.isHidden()) {
            return userClass;
        }
        Class<?> declaring = method.getDeclaringClass();
        if (!Proxy.isProxyClass(declaring) && !declaring.isHidden()) {
            return declaring;
        }
        return Arrays.stream(ClassUtils.getAllInterfacesForClass(userClass))
                .filter(type -> ClassUtils.hasMethod(type, method.getName(), method.getParameterTypes()))
                .findFirst()
                .<Class<?>>map(type -> type)
                .orElse(userClass);
    }
}
