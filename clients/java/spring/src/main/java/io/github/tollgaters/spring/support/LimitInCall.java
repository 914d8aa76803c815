package io.github.tollgaters.spring.support;

import java.util.List;

/**
 * A limit of the app that goes with its calls.
 *
 * @param place where it is written, such as the property
 * @param name the name under which it counts
 * @param quotas the limit
 */
public record LimitInCall(String place, String name, List<String> quotas) {

    /**
     * Copies the list.
     *
     * @param place as above
     * @param name as above
     * @param quotas as above
     */
    public LimitInCall {
        quotas = List.copyOf(quotas);
    }
}
