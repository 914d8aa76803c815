package io.github.tollgaters.client;

/** The version of this package, as the User-Agent of its requests has it. */
final class Version {
    static final String VERSION = "0.1.0";

    private Version() {
    }
}
