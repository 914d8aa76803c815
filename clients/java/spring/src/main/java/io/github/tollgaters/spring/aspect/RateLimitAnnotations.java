package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.support.Places;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.springframework.core.ResolvableType;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.MergedAnnotation;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/** Finds the annotation of a method: its own, or else that of the class. */
final class RateLimitAnnotations {

    private static final String WEB = "org.springframework.web.bind.annotation.";
    private static final List<String> HELPERS = List.of(WEB + "ExceptionHandler", WEB + "InitBinder");

    private RateLimitAnnotations() {}

    /** Returns the annotation of the most specific method of a class, or null. */
    static RateLimit find(Method method, Class<?> targetClass) {
        if (method.isBridge() || method.isSynthetic() || ReflectionUtils.isObjectMethod(method)) {
            return null;
        }
        String place = Places.of(method, targetClass);
        MergedAnnotation<RateLimit> ofMethod = ofMethod(place, method, targetClass);
        if (ofMethod.isPresent()) {
            return ofMethod.synthesize();
        }
        if (!isLimitedByClass(method, targetClass)) {
            return null;
        }
        MergedAnnotation<RateLimit> ofClass = nearest(place, targetClass);
        return ofClass.isPresent() ? ofClass.synthesize() : null;
    }

    private static MergedAnnotation<RateLimit> nearest(String place, AnnotatedElement element) {
        MergedAnnotations annotations = MergedAnnotations.from(element, SearchStrategy.TYPE_HIERARCHY);
        MergedAnnotation<RateLimit> nearest = annotations.get(RateLimit.class);
        if (nearest.isPresent()) {
            annotations.stream(RateLimit.class)
                    .filter(other -> isRival(nearest, other))
                    .findFirst()
                    .ifPresent(other -> refuse(place, nearest, other));
        }
        return nearest;
    }

    private static void refuse(
            String place, MergedAnnotation<RateLimit> nearest, MergedAnnotation<RateLimit> other) {
        throw new IllegalArgumentException(place + ": there are two annotations, \"" + nearest.getString("name")
                + "\" of " + nearest.getSource() + " and \"" + other.getString("name") + "\" of "
                + other.getSource() + ", and none goes first; keep one, or put one on a method of another bean");
    }

    /** Two annotations of one element, or of two interfaces of which none extends the other, have no order. */
    private static boolean isRival(MergedAnnotation<RateLimit> nearest, MergedAnnotation<RateLimit> other) {
        boolean same = nearest.getDistance() == other.getDistance()
                && nearest.getAggregateIndex() == other.getAggregateIndex()
                && String.valueOf(nearest.getMetaTypes()).equals(String.valueOf(other.getMetaTypes()));
        if (same) {
            return false;
        }
        return nearest.getAggregateIndex() == other.getAggregateIndex() || isRivalInterface(nearest, other);
    }

    private static boolean isRivalInterface(MergedAnnotation<RateLimit> nearest, MergedAnnotation<RateLimit> other) {
        Class<?> left = typeOf(nearest.getSource());
        Class<?> right = typeOf(other.getSource());
        return left != null
                && right != null
                && left.isInterface()
                && right.isInterface()
                && !left.isAssignableFrom(right)
                && !right.isAssignableFrom(left)
                && !nearest.synthesize().equals(other.synthesize());
    }

    private static Class<?> typeOf(Object source) {
        if (source instanceof Method method) {
            return method.getDeclaringClass();
        }
        return source instanceof Class<?> type ? type : null;
    }

    /**
     * A method of a superclass may implement an interface that only the subclass names. That interface goes after the
     * classes, and has no order with the interfaces that the superclass names.
     */
    private static MergedAnnotation<RateLimit> ofMethod(String place, Method method, Class<?> targetClass) {
        MergedAnnotation<RateLimit> nearest = nearest(place, method);
        if (nearest.isPresent() && !isOfInterface(nearest)) {
            return nearest;
        }
        List<MergedAnnotation<RateLimit>> all = new ArrayList<>();
        for (Method declared : overridden(method, targetClass)) {
            MergedAnnotation<RateLimit> other = nearest(place, declared);
            if (other.isPresent()) {
                all.add(other);
            }
        }
        for (MergedAnnotation<RateLimit> other : all) {
            nearest = !nearest.isPresent() || isBelow(other, nearest) ? other : nearest;
        }
        for (MergedAnnotation<RateLimit> other : all) {
            if (isRivalInterface(nearest, other)) {
                refuse(place, nearest, other);
            }
        }
        return nearest;
    }

    private static boolean isOfInterface(MergedAnnotation<RateLimit> annotation) {
        Class<?> type = typeOf(annotation.getSource());
        return type != null && type.isInterface();
    }

    private static boolean isBelow(MergedAnnotation<RateLimit> annotation, MergedAnnotation<RateLimit> other) {
        Class<?> below = typeOf(annotation.getSource());
        Class<?> above = typeOf(other.getSource());
        return below != null && above != null && below != above && above.isAssignableFrom(below);
    }

    /** Returns the methods that a method overrides in the class of the bean, whatever their type parameters are. */
    private static List<Method> overridden(Method method, Class<?> targetClass) {
        Set<Class<?>> types = new LinkedHashSet<>();
        for (Class<?> type = method.getDeclaringClass().getSuperclass(); type != null; type = type.getSuperclass()) {
            types.add(type);
        }
        if (Modifier.isPublic(method.getModifiers())) {
            addInterfaces(targetClass, types);
        }
        List<Class<?>> parameters = parameters(method, targetClass);
        return types.stream()
                .flatMap(type -> Arrays.stream(type.getDeclaredMethods()))
                .filter(other -> other.getName().equals(method.getName()) && !other.equals(method) && !other.isBridge())
                .filter(other -> (other.getModifiers() & (Modifier.PRIVATE | Modifier.STATIC)) == 0)
                .filter(other -> parameters(other, targetClass).equals(parameters))
                .toList();
    }

    private static void addInterfaces(Class<?> targetClass, Set<Class<?>> types) {
        for (Class<?> type = targetClass; type != null; type = type.getSuperclass()) {
            for (Class<?> each : type.getInterfaces()) {
                types.add(each);
                addInterfaces(each, types);
            }
        }
    }

    private static List<Class<?>> parameters(Method method, Class<?> targetClass) {
        List<Class<?>> parameters = new ArrayList<>();
        for (int index = 0; index < method.getParameterCount(); index++) {
            ResolvableType type = ResolvableType.forMethodParameter(method, index, targetClass);
            parameters.add(type.resolve(method.getParameterTypes()[index]));
        }
        return parameters;
    }

    /** The helpers of a controller run within a request that is counted already. */
    private static boolean isLimitedByClass(Method method, Class<?> targetClass) {
        int modifiers = method.getModifiers();
        if (!Modifier.isPublic(modifiers) || Modifier.isStatic(modifiers) || overridesObject(method)) {
            return false;
        }
        if (HELPERS.stream().anyMatch(helper -> AnnotatedElementUtils.isAnnotated(method, helper))) {
            return false;
        }
        if (AnnotatedElementUtils.isAnnotated(method, WEB + "ModelAttribute")
                && !AnnotatedElementUtils.isAnnotated(method, WEB + "RequestMapping")) {
            return false;
        }
        return !Proxy.isProxyClass(targetClass) || !isMethodOfProxies(method, targetClass);
    }

    private static boolean overridesObject(Method method) {
        Set<String> names = Set.of("toString", "hashCode", "finalize", "clone");
        boolean equals = method.getName().equals("equals")
                && method.getParameterCount() == 1
                && method.getParameterTypes()[0] == Object.class;
        return equals || method.getParameterCount() == 0 && names.contains(method.getName());
    }

    private static boolean isMethodOfProxies(Method method, Class<?> targetClass) {
        return ClassUtils.getAllInterfacesForClassAsSet(targetClass).stream()
                .filter(type -> type.getName().startsWith("org.springframework.aop."))
                .anyMatch(type -> ClassUtils.hasMethod(type, method.getName(), method.getParameterTypes()));
    }
}
