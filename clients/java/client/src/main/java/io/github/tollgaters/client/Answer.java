package io.github.tollgaters.client;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The fields of an answer that a client knows. Others are passed over, and a field of another type than it should have
 * counts as absent.
 */
final class Answer {
    private static final JsonFactory JSON = new JsonFactory();
    private static final Set<String> TEXTS = Set.of("reason", "policy", "quota", "series", "source", "hold", "status", "detail");
    private static final Set<String> NUMBERS = Set.of("limit", "used", "held", "remaining", "reset_after_ms",
            "retry_after_ms", "expires_after_ms", "block_after_ms", "start", "end");

    private final Map<String, String> texts = new HashMap<>();
    private final Map<String, Long> numbers = new HashMap<>();
    private final List<Answer> quotas = new ArrayList<>();
    private Boolean allowed;
    private boolean blocked;
    private Answer window;

    private Answer() {
    }

    /** Reads a body. It is empty if the body is no object in JSON, or says two different things about one verdict. */
    static Optional<Answer> read(byte[] body) {
        try (JsonParser parser = JSON.createParser(body)) {
            if (parser.nextToken() != JsonToken.START_OBJECT) {
                return Optional.empty();
            }
            Answer answer = object(parser);
            return parser.nextToken() == null ? Optional.of(answer) : Optional.empty();
        } catch (IOException wrong) {
            return Optional.empty();
        }
    }

    private static Answer object(JsonParser parser) throws IOException {
        Answer answer = new Answer();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            answer.field(name, parser.nextToken(), parser);
        }
        return answer;
    }

    private void field(String name, JsonToken value, JsonParser parser) throws IOException {
        if (value == JsonToken.VALUE_STRING && TEXTS.contains(name)) {
            texts.put(name, parser.getText());
        } else if (value == JsonToken.VALUE_NUMBER_INT && NUMBERS.contains(name)
                && parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER) {
            numbers.put(name, parser.getLongValue());
        } else if (name.equals("allowed") && value.isBoolean()) {
            if (allowed != null) {
                throw new IOException("two verdicts");
            }
            allowed = parser.getBooleanValue();
        } else if (name.equals("blocked") && value.isBoolean()) {
            blocked = parser.getBooleanValue();
        } else if (name.equals("window") && value == JsonToken.START_OBJECT) {
            window = object(parser);
        } else if (name.equals("quotas") && value == JsonToken.START_ARRAY) {
            elements(parser);
        } else {
            parser.skipChildren();
        }
    }

    private void elements(JsonParser parser) throws IOException {
        for (JsonToken element = parser.nextToken(); element != JsonToken.END_ARRAY; element = parser.nextToken()) {
            if (element == JsonToken.START_OBJECT) {
                quotas.add(object(parser));
            } else if (element == null) {
                throw new IOException("a list without an end");
            } else {
                parser.skipChildren();
            }
        }
    }

    /** The verdict, or null. */
    Boolean allowed() {
        return allowed;
    }

    boolean blocked() {
        return blocked;
    }

    /** The text of a field, or null. */
    String text(String name) {
        return texts.get(name);
    }

    /** The number of a field, or null. */
    Long number(String name) {
        return numbers.get(name);
    }

    Optional<Answer> window() {
        return Optional.ofNullable(window);
    }

    List<Answer> quotas() {
        return quotas;
    }
}
