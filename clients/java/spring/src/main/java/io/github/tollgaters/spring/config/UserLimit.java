package io.github.tollgaters.spring.config;

import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * The limit of the RLaaS Users Service: a number of requests for each {@code userId}.
 *
 * @param quota the quota, such as {@code 5/60s} or {@code 5/60s~log}
 */
public record UserLimit(String quota) {

    /** The name of the check, and so of the counters. */
    public static final String NAME = "rlaas";

    /** The parameter of the request, and the attribute. */
    public static final String PARAMETER = "userId";

    private static final String FIXED = "fixed-window-algo";
    private static final String SLIDING = "sliding-window-algo";
    /** Ten years, the longest window of the service. */
    private static final long MAX_WINDOW = 315_360_000L;
    private static final long MAX_LIMIT = (1L << 40) - 1;
    private static final long MAX_LOG_LIMIT = (1L << 24) - 1;
    /** The most entries of a log of the service. */
    private static final long MAX_ENTRIES = 256;

    static UserLimit of(String algorithm, Long window, Long limit) {
        if (algorithm == null) {
            if (window != null || limit != null) {
                throw TollgateProperties.wrong(window != null ? "tollgate.window-size" : "tollgate.max-requests",
                        "has no effect without tollgate.use-algo: " + FIXED + " or " + SLIDING);
            }
            return null;
        }
        if (!algorithm.equals(FIXED) && !algorithm.equals(SLIDING)) {
            throw TollgateProperties.wrong("tollgate.use-algo",
                    "is the unknown algorithm `" + algorithm + "`: expected " + FIXED + " or " + SLIDING);
        }
        if (window == null || window < 1 || window > MAX_WINDOW) {
            throw TollgateProperties.wrong("tollgate.window-size",
                    "must be a number of seconds from 1 to " + MAX_WINDOW + ", because tollgate.use-algo is set");
        }
        long most = algorithm.equals(SLIDING) ? MAX_LOG_LIMIT : MAX_LIMIT;
        if (limit == null || limit < 0 || limit > most) {
            throw TollgateProperties.wrong("tollgate.max-requests",
                    "must be a number from 0 to " + most + ", because tollgate.use-algo is " + algorithm);
        }
        return new UserLimit(limit + "/" + window + "s" + (algorithm.equals(SLIDING) ? log(limit, window) : ""));
    }

    /** Returns the exact log, or the one with the shortest round step that fits into the service's bound. */
    private static String log(long limit, long window) {
        long millis = window * 1_000;
        if (Math.min(limit, millis + 2) <= MAX_ENTRIES) {
            return "~log";
        }
        long least = ceilDiv(millis, MAX_ENTRIES - 2);
        long day = 86_400_000;
        long step = LongStream.of(1, 100, 1_000, 60_000, 3_600_000)
                .flatMap(unit -> IntStream.of(1, 2, 5, 10, 15, 20, 30).mapToLong(round -> round * unit))
                .filter(candidate -> candidate >= least)
                .findFirst()
                .orElseGet(() -> ceilDiv(least, day) * day);
        return "~log:" + step + "ms";
    }

    private static long ceilDiv(long dividend, long divisor) {
        return -Math.floorDiv(-dividend, divisor);
    }
}
