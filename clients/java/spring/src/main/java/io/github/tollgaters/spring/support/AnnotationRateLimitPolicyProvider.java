package io.github.tollgaters.spring.support;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.core.RateLimitPolicyProvider;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import io.github.tollgaters.spring.model.RateLimitScope;
import java.time.Duration;
import java.util.List;

/** Reads the limit of a call in its annotation. */
public final class AnnotationRateLimitPolicyProvider implements RateLimitPolicyProvider {

    /** Makes a provider. */
    public AnnotationRateLimitPolicyProvider() {}

    @Override
    public RateLimitPolicy resolvePolicy(RateLimitContext context) {
        return policyOf(context.getAnnotation());
    }

    /**
     * Says whether an annotation has a limit of its own.
     *
     * @param annotation the annotation
     * @return false if the policies of the service decide
     */
    public static boolean hasLimit(RateLimit annotation) {
        return annotation.quotas().length > 0
                || annotation.limit() != RateLimit.NOT_GIVEN
                || annotation.duration() != RateLimit.NOT_GIVEN;
    }

    /**
     * Returns the limit of an annotation.
     *
     * @param annotation the annotation
     * @return the limit
     * @throws IllegalArgumentException if it is none
     */
    public static RateLimitPolicy policyOf(RateLimit annotation) {
        RateLimitScope scope =
                annotation.scope().isBlank() ? RateLimitScope.GLOBAL : RateLimitScope.from(annotation.scope());
        boolean hasCount = annotation.limit() != RateLimit.NOT_GIVEN;
        boolean hasDuration = annotation.duration() != RateLimit.NOT_GIVEN;
        if (annotation.quotas().length > 0) {
            if (hasCount || hasDuration) {
                throw new IllegalArgumentException("quotas replace limit and duration; give one or the other");
            }
            return RateLimitPolicy.ofQuotas(List.of(annotation.quotas()), scope);
        }
        if (hasCount != hasDuration) {
            throw new IllegalArgumentException(hasCount ? "limit needs a duration" : "duration needs a limit");
        }
        if (!hasCount) {
            return RateLimitPolicy.ofService(scope);
        }
        if (annotation.duration() <= 0) {
            throw new IllegalArgumentException("duration must be 1 or more, got " + annotation.duration());
        }
        Duration window = Duration.of(annotation.duration(), annotation.timeUnit().toChronoUnit());
        return new RateLimitPolicy(annotation.limit(), window, scope.getScope());
    }
}
