package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;

/** The fields that decisions and counts share, in the types of Java. */
final class Figures {
    private Figures() {
    }

    static OptionalLong number(Answer answer, String name) {
        Long number = answer == null ? null : answer.number(name);
        return number == null ? OptionalLong.empty() : OptionalLong.of(number);
    }

    static Optional<Duration> milliseconds(Answer answer, String name) {
        Long number = answer == null ? null : answer.number(name);
        return number == null ? Optional.empty() : Optional.of(Duration.ofMillis(Math.max(0, number)));
    }

    static Optional<String> text(Answer answer, String name) {
        return answer == null ? Optional.empty() : Optional.ofNullable(answer.text(name));
    }
}
