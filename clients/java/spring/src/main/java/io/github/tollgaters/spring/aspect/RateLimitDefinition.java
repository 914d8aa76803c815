package io.github.tollgaters.spring.aspect;

import io.github.tollgaters.spring.annotation.RateLimit;
import java.lang.reflect.Method;
import java.util.Optional;

/**
 * A method that is limited.
 *
 * @param annotation its annotation
 * @param method the method of the bean
 * @param targetClass the class of the bean
 * @param fallback what is called instead
 * @param resultComesLater whether it returns a reactive type
 */
record RateLimitDefinition(
        RateLimit annotation,
        Method method,
        Class<?> targetClass,
        Optional<Fallback> fallback,
        boolean resultComesLater) {}
