package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.support.Places;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Set;
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

    /** An annotation, and whether it is on a method. */
    record Found(RateLimit annotation, boolean onMethod) {}

    /** Returns the annotation of the most specific method of a class, or null. */
    static Found find(Method method, Class<?> targetClass) {
        if (method.isBridge() || method.isSynthetic() || ReflectionUtils.isObjectMethod(method)) {
            return null;
        }
        String place = Places.of(method, targetClass);
        RateLimit own = nearest(place, MergedAnnotations.from(method, SearchStrategy.TYPE_HIERARCHY));
        if (own == null) {
            own = ofForeignInterface(place, method, targetClass);
        }
        if (own != null) {
            return new Found(own, true);
        }
        if (!isLimitedByClass(method, targetClass)) {
            return null;
        }
        RateLimit ofClass = nearest(place, MergedAnnotations.from(targetClass, SearchStrategy.TYPE_HIERARCHY));
        return ofClass == null ? null : new Found(ofClass, false);
    }

    private static RateLimit nearest(String place, MergedAnnotations annotations) {
        MergedAnnotation<RateLimit> nearest = annotations.get(RateLimit.class);
        if (!nearest.isPresent()) {
            return null;
        }
        annotations.stream(RateLimit.class).filter(other -> isRival(nearest, other)).findFirst().ifPresent(other -> {
            throw new IllegalArgumentException(place + ": there are two annotations, \"" + nearest.getString("name")
                    + "\" of " + nearest.getSource() + " and \"" + other.getString("name") + "\" of "
                    + other.getSource() + ", and none goes first; keep one, or put one on a method of another bean");
        });
        return nearest.synthesize();
    }

    /** Two annotations of one element, or of two interfaces of which none extends the other, have no order. */
    private static boolean isRival(MergedAnnotation<RateLimit> nearest, MergedAnnotation<RateLimit> other) {
        boolean same = nearest.getDistance() == other.getDistance()
                && nearest.getAggregateIndex() == other.getAggregateIndex()
                && String.valueOf(nearest.getMetaTypes()).equals(String.valueOf(other.getMetaTypes()));
        if (same) {
            return false;
        }
        if (nearest.getAggregateIndex() == other.getAggregateIndex()) {
            return true;
        }
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

    /** A method of a superclass may implement an interface that only the subclass names. */
    private static RateLimit ofForeignInterface(String place, Method method, Class<?> targetClass) {
        for (Class<?> type : ClassUtils.getAllInterfacesForClassAsSet(targetClass)) {
            if (type.isAssignableFrom(method.getDeclaringClass()) || !Modifier.isPublic(method.getModifiers())) {
                continue;
            }
            Method declared = ClassUtils.getMethodIfAvailable(type, method.getName(), method.getParameterTypes());
            RateLimit found = declared == null
                    ? null
                    : nearest(place, MergedAnnotations.from(declared, SearchStrategy.TYPE_HIERARCHY));
            if (found != null) {
                return found;
            }
        }
        return null;
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
