package io.github.tollgaters.spring.filter;

import io.github.tollgaters.spring.web.ProblemAnswer;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The answer to a request that a filter does not admit.
 *
 * @param status the status
 * @param headers the headers, without the type of the body
 * @param contentType the type of the body
 * @param body the body, in UTF-8
 */
public record FilterAnswer(int status, Map<String, String> headers, String contentType, String body) {

    static FilterAnswer of(ProblemAnswer problem) {
        return new FilterAnswer(problem.status(), problem.headers(), ProblemAnswer.TYPE, problem.json());
    }

    /** Returns the sentence of the RLaaS Users Service in place of the problem. */
    static FilterAnswer sentence(ProblemAnswer problem) {
        String seconds = problem.headers().get("retry-after");
        String text = "User is not allowed..." + (seconds == null ? "Waiting does not help."
                : "Try after " + seconds + " seconds.");
        return new FilterAnswer(
                problem.status(), new LinkedHashMap<>(problem.headers()), "text/plain;charset=UTF-8", text);
    }
}
