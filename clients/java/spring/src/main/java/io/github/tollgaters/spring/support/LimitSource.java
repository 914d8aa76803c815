package io.github.tollgaters.spring.support;

import java.util.List;

/** A part of the app that has limits, such as its annotations. */
public interface LimitSource {

    /**
     * Says what is limited.
     *
     * @return a text such as {@code 3 methods}
     */
    String limited();

    /**
     * Returns the limits that go with calls, without those of which policies of the service decide.
     *
     * @return the limits
     */
    List<LimitInCall> limitsInCalls();
}
