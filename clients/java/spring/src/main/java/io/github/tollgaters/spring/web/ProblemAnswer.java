package io.github.tollgaters.spring.web;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import io.github.tollgaters.spring.config.ProblemBody;
import io.github.tollgaters.spring.config.TollgateProperties;
import io.github.tollgaters.spring.model.RateLimitDecision;
import io.github.tollgaters.spring.model.RateLimitPolicy;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The answer to a request that is not admitted.
 *
 * @param status the status
 * @param headers the headers, without the type of the body
 * @param body the members of the problem, in their order; a value is a text, a number or a list of texts
 */
public record ProblemAnswer(int status, Map<String, String> headers, Map<String, Object> body) {

    /** The type of the body. */
    public static final String TYPE = "application/problem+json";

    private static final JsonFactory JSON = new JsonFactory();

    /**
     * Copies the maps.
     *
     * @param status as above
     * @param headers as above
     * @param body as above
     */
    public ProblemAnswer {
        headers = Collections.unmodifiableMap(new LinkedHashMap<>(headers));
        body = Collections.unmodifiableMap(new LinkedHashMap<>(body));
    }

    /**
     * Returns the answer to a request that the service denied.
     *
     * @param name the name of the limit, or null
     * @param policy the limit
     * @param decision the denial
     * @param properties say which body and which headers
     * @return the answer
     */
    public static ProblemAnswer denied(
            String name, RateLimitPolicy policy, RateLimitDecision decision, TollgateProperties properties) {
        return denied(name, policy, decision, properties.problem(), properties.includeHttpHeaders());
    }

    /**
     * Returns the answer to a request that the service denied.
     *
     * @param name the name of the limit, or null
     * @param policy the limit
     * @param decision the denial
     * @param problem whose body
     * @param limitHeaders whether the answer has the limit headers of the service
     * @return the answer
     */
    public static ProblemAnswer denied(String name, RateLimitPolicy policy, RateLimitDecision decision,
            ProblemBody problem, boolean limitHeaders) {
        if (decision.getFailure().isPresent()) {
            return unavailable();
        }
        int answered = decision.getStatus();
        int status = answered >= 400 && answered <= 599 ? answered : 429;
        Map<String, String> headers = new LinkedHashMap<>();
        if (limitHeaders) {
            headers.putAll(decision.getHeaders());
        }
        headers.put("cache-control", "no-store");
        headers.remove("retry-after");
        decision.getRetryAfterSeconds().ifPresent(seconds -> headers.put("retry-after", Long.toString(seconds)));
        if (problem == ProblemBody.STARTER) {
            if (limitHeaders) {
                addStarterHeaders(headers, decision);
            }
            return new ProblemAnswer(status, headers, starterBody(name, policy, decision, status));
        }
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("type", "https://iana.org/assignments/http-problem-types#quota-exceeded");
        body.put("title", "Quota exceeded");
        body.put("status", status);
        body.put("detail", decision.retryHint());
        decision.getPolicyName().ifPresent(decided -> body.put("violated-policies", List.of(decided)));
        return new ProblemAnswer(status, headers, body);
    }

    /**
     * Returns the answer to a request that is not admitted because the service did not decide.
     *
     * @return the answer
     */
    public static ProblemAnswer unavailable() {
        return plain(503, "Rate limiter unavailable", null);
    }

    /**
     * Returns the answer to a request that says something wrong.
     *
     * @param detail what is wrong, without a value of the request
     * @return the answer
     */
    public static ProblemAnswer badRequest(String detail) {
        return plain(400, "Bad Request", detail);
    }

    private static ProblemAnswer plain(int status, String title, String detail) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("title", title);
        body.put("status", status);
        if (detail != null) {
            body.put("detail", detail);
        }
        return new ProblemAnswer(status, Map.of("cache-control", "no-store"), body);
    }

    /** The headers of the Redis rate limiter starter. They are kept if the policy of the service sent them. */
    private static void addStarterHeaders(Map<String, String> headers, RateLimitDecision decision) {
        decision.getLimit().ifPresent(limit -> headers.putIfAbsent("ratelimit-limit", Long.toString(limit)));
        headers.putIfAbsent("ratelimit-remaining", Long.toString(decision.getRemaining().orElse(0)));
        decision.getRetryAfterSeconds()
                .ifPresent(seconds -> headers.putIfAbsent("ratelimit-reset", Long.toString(seconds)));
    }

    /** The body of the Redis rate limiter starter, without the key, which can be a person or a secret. */
    private static Map<String, Object> starterBody(
            String name, RateLimitPolicy policy, RateLimitDecision decision, int status) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("type", "about:blank");
        body.put("title", "Rate limit exceeded");
        body.put("status", status);
        body.put("detail", (name == null ? "Rate limit exceeded: " : "Rate limit exceeded: " + name + ", ")
                + decision.retryHint());
        body.put("timestamp", Instant.now().toString());
        if (policy.getLimit() > 0) {
            body.put("limit", policy.getLimit());
            body.put("windowSeconds", seconds(policy.getWindow().toMillis()));
        } else {
            decision.getLimit().ifPresent(limit -> body.put("limit", limit));
        }
        if (name != null) {
            body.put("name", name);
        }
        decision.getRetryAfterSeconds().ifPresent(seconds -> body.put("retryAfterSeconds", seconds));
        return body;
    }

    private static Number seconds(long millis) {
        return millis % 1_000 == 0 ? (Number) (millis / 1_000) : (Number) (millis / 1_000.0);
    }

    /**
     * Returns the body as JSON.
     *
     * @return the text
     */
    public String json() {
        StringWriter text = new StringWriter();
        try (JsonGenerator json = JSON.createGenerator(text)) {
            json.writeStartObject();
            for (Map.Entry<String, Object> member : body.entrySet()) {
                json.writeFieldName(member.getKey());
                write(json, member.getValue());
            }
            json.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException("a text in memory cannot fail", error);
        }
        return text.toString();
    }

    private static void write(JsonGenerator json, Object value) throws IOException {
        if (value instanceof Integer || value instanceof Long) {
            json.writeNumber(((Number) value).longValue());
        } else if (value instanceof Number number) {
            json.writeNumber(number.doubleValue());
        } else if (value instanceof List<?> elements) {
            json.writeStartArray();
            for (Object element : elements) {
                json.writeString(element.toString());
            }
            json.writeEndArray();
        } else {
            json.writeString(value.toString());
        }
    }
}
