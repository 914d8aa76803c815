package io.github.tollgaters.apps;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.concurrent.CompletableFuture;

/**
 * A plain request to the service by the HTTP client of the JDK: what the client is measured against. It has no bound and
 * no answer for failures. It keeps connections alive and parses the answer's JSON.
 */
final class BareClient {

    private static final JsonFactory JSON = new JsonFactory();

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    /** Fails if the user is not admitted. */
    CompletableFuture<Void> check(String user) {
        HttpRequest request = HttpRequest.newBuilder(AppSettings.SERVICE.resolve("/v1/check"))
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofByteArray(body(user)))
                .build();
        return http.sendAsync(request, BodyHandlers.ofByteArray()).thenAccept(BareClient::expectAllowed);
    }

    private static byte[] body(String user) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JsonGenerator json = JSON.createGenerator(bytes)) {
            json.writeStartObject();
            json.writeObjectFieldStart("attributes");
            json.writeStringField("user", user);
            json.writeStringField("action", "search");
            json.writeEndObject();
            json.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    private static void expectAllowed(HttpResponse<byte[]> answer) {
        boolean isAllowed = false;
        try (JsonParser json = JSON.createParser(answer.body())) {
            for (JsonToken token = json.nextToken(); token != null; token = json.nextToken()) {
                if (token == JsonToken.FIELD_NAME && json.currentName().equals("allowed")) {
                    isAllowed = json.nextToken() == JsonToken.VALUE_TRUE;
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (!isAllowed) {
            throw new IllegalStateException("the service answered " + answer.statusCode());
        }
    }
}
