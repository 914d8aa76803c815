package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.core.RateLimitPolicyProvider;
import io.github.tollgaters.spring.support.AnnotationRateLimitPolicyProvider;
import io.github.tollgaters.spring.support.KeyResolvers;
import io.github.tollgaters.spring.support.LimitInCall;
import io.github.tollgaters.spring.support.LimitSource;
import io.github.tollgaters.spring.support.Places;
import io.github.tollgaters.spring.support.RateLimitSwitches;
import io.github.tollgaters.spring.support.TollgateRateLimiter;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.framework.AopInfrastructureBean;
import org.springframework.aop.framework.AopProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.FactoryBean;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/**
 * Checks, when the app starts, that every limit is enforced: that it can work, that its resolver exists, and that
 * Spring intercepts its bean. A limit that would be skipped silently is an error.
 */
public final class RateLimitStartCheck implements SmartInitializingSingleton, LimitSource {

    private static final Log LOG = LogFactory.getLog(RateLimitStartCheck.class);
    private static final String MOCKITO = "org.mockito.Mockito";

    private final ConfigurableListableBeanFactory beans;
    private final RateLimitAdvisor advisor;
    private final KeyResolvers keyResolvers;
    private final RateLimitSwitches switches;
    private final Set<String> otherNames;
    private final Set<String> closedNames;
    private final Set<String> names = new TreeSet<>();
    private final Map<String, RateLimit> limited = new LinkedHashMap<>();

    /**
     * Makes a check.
     *
     * @param beans the beans of the app
     * @param advisor what intercepts them; null if the app has an interceptor of its own, which is not checked
     * @param keyResolvers the resolvers of keys
     * @param switches which limits are enforced
     * @param otherNames the names of limits that no annotation has
     * @param closedNames the names whose calls are refused without the service
     */
    public RateLimitStartCheck(
            ConfigurableListableBeanFactory beans,
            RateLimitAdvisor advisor,
            KeyResolvers keyResolvers,
            RateLimitSwitches switches,
            Set<String> otherNames,
            Set<String> closedNames) {
        this.beans = beans;
        this.advisor = advisor;
        this.keyResolvers = keyResolvers;
        this.switches = switches;
        this.otherNames = Set.copyOf(otherNames);
        this.closedNames = Set.copyOf(closedNames);
    }

    @Override
    public void afterSingletonsInstantiated() {
        if (!switches.isEnabled()) {
            LOG.warn("tollgate.enabled is false: no limit is enforced");
            return;
        }
        if (advisor == null) {
            return;
        }
        for (String bean : beans.getBeanNamesForType(Object.class, true, false)) {
            Object instance = beans.containsSingleton(bean) ? beans.getSingleton(bean) : null;
            if (instance instanceof AopInfrastructureBean || isMock(instance)) {
                continue;
            }
            if (instance == null || instance instanceof FactoryBean<?>) {
                check(bean, beans.getType(bean, false), null);
            } else {
                check(bean, AopProxyUtils.ultimateTargetClass(instance), instance);
            }
        }
        warnOfUnusedNames();
    }

    @Override
    public String limited() {
        return limited.size() + (limited.size() == 1 ? " method" : " methods");
    }

    /** A provider of the app may give other limits than the annotations have. */
    @Override
    public List<LimitInCall> limitsInCalls() {
        boolean isOfAnnotation = beans.getBeanProvider(RateLimitPolicyProvider.class).stream()
                .allMatch(AnnotationRateLimitPolicyProvider.class::isInstance);
        List<LimitInCall> limits = new ArrayList<>();
        limited.forEach((place, annotation) -> {
            if (isOfAnnotation && AnnotationRateLimitPolicyProvider.hasLimit(annotation)) {
                limits.add(new LimitInCall(
                        place,
                        annotation.name().isBlank() ? TollgateRateLimiter.UNNAMED : annotation.name(),
                        AnnotationRateLimitPolicyProvider.policyOf(annotation).getQuotas()));
            }
        });
        return limits;
    }

    /** A test made the mock, so Spring does not limit it. */
    private static boolean isMock(Object instance) {
        if (instance == null || !ClassUtils.isPresent(MOCKITO, instance.getClass().getClassLoader())) {
            return false;
        }
        try {
            Class<?> mockito = ClassUtils.forName(MOCKITO, instance.getClass().getClassLoader());
            Object details = mockito.getMethod("mockingDetails", Object.class).invoke(null, instance);
            Class<?> type = ClassUtils.forName("org.mockito.MockingDetails", mockito.getClassLoader());
            return (Boolean) type.getMethod("isMock").invoke(details);
        } catch (ReflectiveOperationException | LinkageError e) {
            return false;
        }
    }

    /** An app without annotations may have the names elsewhere, such as in the routes of a gateway. */
    private void warnOfUnusedNames() {
        if (names.isEmpty()) {
            return;
        }
        for (String name : unused(switches.names())) {
            LOG.warn("tollgate.policies." + name + ": no @RateLimit and no filter of URLs has this name");
        }
        for (String name : unused(closedNames)) {
            LOG.warn("tollgate.closed-names: no @RateLimit and no filter of URLs has the name `" + name + "`");
        }
    }

    /** What a factory makes may not exist yet; its type is known, and Spring intercepts it when it is made. */
    private Set<String> unused(Set<String> written) {
        Set<String> unused = new TreeSet<>(written);
        unused.removeAll(names);
        unused.removeAll(otherNames);
        return unused;
    }

    private void check(String bean, Class<?> beanType, Object instance) {
        if (beanType == null || !AnnotationUtils.isCandidateClass(beanType, RateLimit.class)) {
            return;
        }
        Class<?> type = ClassUtils.getUserClass(beanType);
        try {
            for (Method method : methods(type)) {
                if (!switches.names().isEmpty() || !closedNames.isEmpty()) {
                    collectName(method, type);
                }
                advisor.find(method, type).ifPresent(definition -> {
                    String place = Places.of(definition.method(), definition.targetClass());
                    keyResolvers.resolve(place, definition.annotation().keyResolver());
                    advisor.checkResult(definition);
                    limited.put(place, definition.annotation());
                    if (instance != null) {
                        checkProxy(place, definition, instance);
                    }
                });
            }
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new InvalidRateLimitException("bean '" + bean + "': " + e.getMessage(), e);
        }
    }

    private void collectName(Method method, Class<?> type) {
        RateLimit annotation = RateLimitAnnotations.find(method, type);
        if (annotation != null) {
            names.add(annotation.name());
        }
    }

    private static Set<Method> methods(Class<?> type) {
        Set<Method> methods = new LinkedHashSet<>(Arrays.asList(ReflectionUtils.getUniqueDeclaredMethods(type)));
        for (Class<?> each : ClassUtils.getAllInterfacesForClassAsSet(type)) {
            methods.addAll(Arrays.asList(each.getMethods()));
        }
        methods.removeIf(method -> method.getDeclaringClass() == Object.class);
        return methods;
    }

    private void checkProxy(String place, RateLimitDefinition definition, Object instance) {
        if (!isAdvised(instance)) {
            throw new IllegalStateException(place + ": Spring does not intercept this bean, so it would not be "
                    + "limited. Either it was made too early, because a BeanPostProcessor or a "
                    + "BeanFactoryPostProcessor needs it: let that bean take it from an ObjectProvider. Or Spring did "
                    + "not make it: in a test with such a bean, set tollgate.enabled to false");
        }
        Method method = definition.method();
        boolean reachable = !Proxy.isProxyClass(instance.getClass())
                || Arrays.stream(instance.getClass().getInterfaces())
                        .anyMatch(type -> hasMethod(type, method, definition.targetClass()));
        if (!reachable && AnnotationUtils.findAnnotation(method, RateLimit.class) != null) {
            throw new IllegalStateException(place + ": the bean is a JDK proxy, and no interface of it has this "
                    + "method; add it to the interface, or set spring.aop.proxy-target-class to true");
        }
    }

    private static boolean hasMethod(Class<?> type, Method wanted, Class<?> targetClass) {
        return Arrays.stream(type.getMethods())
                .anyMatch(method -> AopUtils.getMostSpecificMethod(method, targetClass).equals(wanted));
    }

    /** A proxy may be around another one. The advisors of some proxies cannot be read: those pass the check. */
    private boolean isAdvised(Object instance) {
        if (!(instance instanceof Advised advised)) {
            return AopUtils.isAopProxy(instance);
        }
        if (Arrays.asList(advised.getAdvisors()).contains(advisor)) {
            return true;
        }
        Object inner = AopProxyUtils.getSingletonTarget(instance);
        return inner != null && inner != instance && AopUtils.isAopProxy(inner) && isAdvised(inner);
    }
}
