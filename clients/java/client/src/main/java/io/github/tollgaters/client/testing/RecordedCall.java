package io.github.tollgaters.client.testing;

import java.util.Map;

/**
 * A call that a {@link FakeTollgate} got.
 *
 * @param operation {@code check}, {@code peek}, {@code reserve}, {@code renew}, {@code settle} or {@code count}
 * @param name the name of the check or the policy of the count; empty for a renewal or a settlement
 * @param attributes those of the caller, without the name. Each value is a String, a Boolean or a List of Strings.
 * @param cost the cost, which is 1 if the caller named none
 */
public record RecordedCall(String operation, String name, Map<String, Object> attributes, long cost) {
}
