package io.github.tollgaters.client;

/** The trace that a call belongs to, as the headers of W3C Trace Context. Either may be null. */
record TraceContext(String parent, String state) {
    static final TraceContext NONE = new TraceContext(null, null);

    /** Takes what a header can have. A trace comes from callers of the app, so a wrong one must not fail the call. */
    static TraceContext of(String parent, String state) {
        if (!isHeaderValue(parent)) {
            return NONE;
        }
        return new TraceContext(parent, isHeaderValue(state) ? state : null);
    }

    private static boolean isHeaderValue(String text) {
        return text != null && !text.isEmpty() && text.length() <= 1024
                && text.chars().allMatch(unit -> unit >= 0x20 && unit <= 0x7e);
    }
}
