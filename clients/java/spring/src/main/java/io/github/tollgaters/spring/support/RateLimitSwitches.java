package io.github.tollgaters.spring.support;

import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** Which limits are enforced. The settings are read when the app starts. */
public final class RateLimitSwitches {

    /** What the name of a limit in a call looks like. */
    public static final String POLICY_NAME = "[A-Za-z0-9._-]{1,64}";

    private final boolean enabled;
    private final Map<String, Boolean> byName;

    /**
     * Makes switches.
     *
     * @param enabled whether any limit is enforced
     * @param byName whether the limits of a name are
     */
    public RateLimitSwitches(boolean enabled, Map<String, Boolean> byName) {
        this.enabled = enabled;
        this.byName = Map.copyOf(byName);
    }

    /**
     * Says whether any limit is enforced.
     *
     * @return whether {@code tollgate.enabled} is true
     */
    public boolean isEnabled() {
        return enabled;
    }

    /**
     * Says whether the limits of a name are enforced.
     *
     * @param name the name, or an empty text
     * @return whether neither {@code tollgate.enabled} nor {@code tollgate.policies.NAME.enabled} is false
     */
    public boolean isEnabled(String name) {
        return enabled && byName.getOrDefault(name, true);
    }

    /**
     * Returns the names that the settings have.
     *
     * @return the names in order
     */
    public Set<String> names() {
        return new TreeSet<>(byName.keySet());
    }
}
