package io.github.tollgaters.spring.exception;

import io.github.tollgaters.spring.config.ProblemBody;
import io.github.tollgaters.spring.web.ProblemAnswer;
import io.github.tollgaters.spring.web.WebCaller;
import io.github.tollgaters.spring.web.WebCallerSource;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.springframework.beans.BeansException;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ApplicationContextAware;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.http.HttpHeaders;
import org.springframework.http.MediaType;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.util.ReflectionUtils.MethodFilter;
import org.springframework.web.bind.annotation.ControllerAdvice;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/**
 * Answers denied requests with 429, or with the status that the policy of the service sets, and requests without a
 * decision with 503.
 *
 * <p>An advice of the app that names one of these exceptions goes first. One for all exceptions does not: it would
 * answer denials as errors of the server.
 */
@RestControllerAdvice
public class RateLimitExceptionHandler implements Ordered, ApplicationContextAware {

    private final ProblemBody problem;
    private final boolean includeHttpHeaders;
    private final WebCallerSource callers;
    private ApplicationContext context;

    /**
     * Makes a handler with the body of Tollgate.
     *
     * @param includeHttpHeaders whether answers have the limit headers of the service
     */
    public RateLimitExceptionHandler(boolean includeHttpHeaders) {
        this(ProblemBody.TOLLGATE, includeHttpHeaders, Optional::empty);
    }

    /**
     * Makes a handler.
     *
     * @param problem whose body denied requests get
     * @param includeHttpHeaders whether answers have the limit headers of the service
     * @param callers finds the response, whose limit headers are replaced; without one, they are those of the answer
     */
    public RateLimitExceptionHandler(ProblemBody problem, boolean includeHttpHeaders, WebCallerSource callers) {
        this.problem = Objects.requireNonNull(problem, "problem");
        this.includeHttpHeaders = includeHttpHeaders;
        this.callers = Objects.requireNonNull(callers, "callers");
    }

    /**
     * Answers a denied request.
     *
     * @param denied the denial
     * @return the answer
     */
    @ExceptionHandler(RateLimitExceededException.class)
    public ResponseEntity<ProblemDetail> handleRateLimitExceeded(RateLimitExceededException denied) {
        return entity(ProblemAnswer.denied(
                denied.getName(), denied.getPolicy(), denied.getDecision(), problem, includeHttpHeaders));
    }

    /**
     * Answers a request about which there is no decision.
     *
     * @param refused why
     * @return the answer
     */
    @ExceptionHandler(RateLimiterBackendException.class)
    public ResponseEntity<ProblemDetail> handleBackendFailure(RateLimiterBackendException refused) {
        return entity(ProblemAnswer.unavailable());
    }

    private ResponseEntity<ProblemDetail> entity(ProblemAnswer answer) {
        ProblemDetail detail = ProblemDetail.forStatus(answer.status());
        answer.body().forEach((member, value) -> {
            switch (member) {
                case "type" -> detail.setType(URI.create(value.toString()));
                case "title" -> detail.setTitle(value.toString());
                case "detail" -> detail.setDetail(value.toString());
                case "status" -> {}
                default -> detail.setProperty(member, value);
            }
        });
        HttpHeaders headers = new HttpHeaders();
        headers.setContentType(MediaType.APPLICATION_PROBLEM_JSON);
        Map<String, String> limits = new LinkedHashMap<>();
        answer.headers().forEach((name, value) -> {
            boolean isOwn = List.of("cache-control", "retry-after").contains(name);
            if (isOwn) {
                headers.set(name, value);
            } else {
                limits.put(name, value);
            }
        });
        // An admitted check of the same request may have set them, and a second value would be added to it.
        Optional<WebCaller> caller = callers.current();
        caller.ifPresentOrElse(present -> present.setLimitHeaders(limits), () -> limits.forEach(headers::set));
        return ResponseEntity.status(answer.status()).headers(headers).body(detail);
    }

    @Override
    public void setApplicationContext(ApplicationContext applicationContext) throws BeansException {
        this.context = applicationContext;
    }

    /**
     * Returns the last place if an advice of the app names one of the exceptions, else the first. Of two exceptions, the
     * other one is then answered by a {@link SingleAnswer}.
     *
     * @return the place
     */
    @Override
    public int getOrder() {
        return context != null && isNamedByAnotherAdvice() ? Ordered.LOWEST_PRECEDENCE : Ordered.HIGHEST_PRECEDENCE;
    }

    private boolean isNamedByAnotherAdvice() {
        return isNamed(context, RateLimitExceededException.class)
                || isNamed(context, RateLimiterBackendException.class);
    }

    /** Says whether an advice of the app names an exception. */
    static boolean isNamed(ApplicationContext context, Class<? extends Exception> exception) {
        for (String bean : context.getBeanNamesForAnnotation(ControllerAdvice.class)) {
            Class<?> type = context.getType(bean);
            if (type != null
                    && !RateLimitExceptionHandler.class.isAssignableFrom(type)
                    && !SingleAnswer.class.isAssignableFrom(type)
                    && !MethodIntrospector.selectMethods(type, (MethodFilter) method -> names(method, exception))
                            .isEmpty()) {
                return true;
            }
        }
        return false;
    }

    private static boolean names(Method method, Class<? extends Exception> exception) {
        ExceptionHandler handler = AnnotatedElementUtils.findMergedAnnotation(method, ExceptionHandler.class);
        if (handler == null) {
            return false;
        }
        Class<?>[] named = handler.value().length > 0 ? handler.value() : method.getParameterTypes();
        return Arrays.asList(named).contains(exception);
    }
}
