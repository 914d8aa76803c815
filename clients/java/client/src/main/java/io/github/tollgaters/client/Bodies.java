package io.github.tollgaters.client;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.util.ByteArrayBuilder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Writes the bodies of requests. What has its default value is left out. */
final class Bodies {
    /** The service refuses longer requests. */
    private static final int MAX_BODY = 64 << 10;
    private static final JsonFactory JSON = new JsonFactory();

    private Bodies() {
    }

    static byte[] check(CheckRequest request, OnFailure onFailure) {
        boolean ownLimits = !request.quotas().isEmpty();
        if (!ownLimits && request.storeFailure().isPresent()) {
            throw new IllegalArgumentException(
                    "onStoreFailure is for a check with quotas: without them, its policy says what happens");
        }
        if (ownLimits && request.checkedAttributes().values().isEmpty()) {
            throw new IllegalArgumentException("a check with quotas needs at least one attribute: all of them are its key");
        }
        return written(json -> {
            attributes(json, ownLimits ? null : request.name(), request.checkedAttributes());
            cost(json, request.cost());
            if (ownLimits) {
                json.writeStringField("policy", request.name());
                texts(json, "quotas", request.quotas());
                storeFailure(json, onFailure);
            }
        });
    }

    static byte[] reservation(ReservationRequest request, String id) {
        return written(json -> {
            attributes(json, request.name(), request.checkedAttributes());
            cost(json, request.cost());
            if (request.units() != 1) {
                json.writeNumberField("units", request.units());
            }
            if (request.unusualLength() != null) {
                json.writeStringField("expires_after", written(request.unusualLength()));
            }
            json.writeStringField("id", id);
        });
    }

    static byte[] renewal(String hold) {
        return written(json -> json.writeStringField("hold", hold));
    }

    static byte[] settlement(String hold, long cost) {
        return written(json -> {
            json.writeStringField("hold", hold);
            json.writeNumberField("cost", cost);
        });
    }

    static byte[] count(CountRequest request, OnFailure onFailure) {
        CountRequest.Operation operation = request.operation();
        return written(json -> {
            json.writeStringField("policy", request.policy());
            attributes(json, null, request.checkedAttributes());
            if (!request.quotas().isEmpty()) {
                texts(json, "quotas", request.quotas());
            }
            if (request.window().isPresent()) {
                json.writeStringField("window", request.window().get());
            }
            if (operation != CountRequest.Operation.ADD) {
                json.writeStringField("operation", operation.toString());
            }
            cost(json, request.cost());
            if (request.used().isPresent()) {
                json.writeNumberField("used", request.used().getAsLong());
            }
            if (operation.asks()) {
                storeFailure(json, onFailure);
            }
            if (request.block().isPresent()) {
                json.writeStringField("block", written(request.block().get()));
            }
        });
    }

    /** Writes the attributes, and the name of a check if there is one. */
    private static void attributes(JsonGenerator json, String action, Attributes attributes) throws IOException {
        json.writeObjectFieldStart("attributes");
        if (action != null) {
            json.writeStringField(Attributes.ACTION, action);
        }
        for (Map.Entry<String, Object> attribute : attributes.values().entrySet()) {
            Object value = attribute.getValue();
            if (value instanceof String text) {
                json.writeStringField(attribute.getKey(), text);
            } else if (value instanceof Boolean flag) {
                json.writeBooleanField(attribute.getKey(), flag);
            } else if (value instanceof List<?> elements) {
                texts(json, attribute.getKey(), elements);
            }
        }
        json.writeEndObject();
    }

    private static void texts(JsonGenerator json, String name, List<?> texts) throws IOException {
        json.writeArrayFieldStart(name);
        for (Object text : texts) {
            json.writeString((String) text);
        }
        json.writeEndArray();
    }

    private static void cost(JsonGenerator json, long cost) throws IOException {
        if (cost != 1) {
            json.writeNumberField("cost", cost);
        }
    }

    private static void storeFailure(JsonGenerator json, OnFailure answer) throws IOException {
        if (answer == OnFailure.CLOSED) {
            json.writeStringField("on_store_failure", answer.name().toLowerCase(Locale.ROOT));
        }
    }

    /** A time as quotas write it. */
    private static String written(Duration time) {
        return time.getNano() == 0 ? time.toSeconds() + "s" : time.toMillis() + "ms";
    }

    private interface Fields {
        void write(JsonGenerator json) throws IOException;
    }

    private static byte[] written(Fields fields) {
        try (ByteArrayBuilder bytes = new ByteArrayBuilder(512)) {
            try (JsonGenerator json = JSON.createGenerator(bytes)) {
                json.writeStartObject();
                fields.write(json);
                json.writeEndObject();
            }
            byte[] body = bytes.toByteArray();
            if (body.length > MAX_BODY) {
                throw new IllegalArgumentException("the request has " + body.length + " bytes, more than " + MAX_BODY);
            }
            return body;
        } catch (IOException impossible) {
            // The bytes are in memory, and every text was checked.
            throw new UncheckedIOException(impossible);
        }
    }
}
