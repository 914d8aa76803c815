package io.github.tollgaters.client;

import java.util.List;

/** Limits that a call carries. */
final class Quotas {
    private static final int MAX_QUOTAS = 8;

    private Quotas() {
    }

    static List<String> checked(List<String> quotas) {
        if (quotas == null || quotas.isEmpty() || quotas.size() > MAX_QUOTAS) {
            throw new IllegalArgumentException(
                    "a call has 1 to " + MAX_QUOTAS + " quotas, not " + (quotas == null ? "null" : quotas.size()));
        }
        quotas.forEach(quota -> Text.name(quota, "a quota"));
        return List.copyOf(quotas);
    }
}
