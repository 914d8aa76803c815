package io.github.tollgaters.apps;

import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.Tollgate;
import java.util.List;
import java.util.Map;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestHeader;

/** What both apps on servlets answer. */
abstract class ServletPaths {

    /** What bucket4j's starter needs for a limit of {@code /usual} in Redis. */
    static final List<String> USUAL = List.of(
            "bucket4j.cache-to-use=redis-jedis",
            "bucket4j.filters[0].cache-name=usual",
            "bucket4j.filters[0].url=^/usual$",
            "bucket4j.filters[0].rate-limits[0].cache-key=getHeader('X-User')",
            "bucket4j.filters[0].rate-limits[0].bandwidths[0].capacity=1000000000",
            "bucket4j.filters[0].rate-limits[0].bandwidths[0].time=1",
            "bucket4j.filters[0].rate-limits[0].bandwidths[0].unit=hours");

    private final Tollgate tollgate;
    private final BareClient bare = new BareClient();

    ServletPaths(Tollgate tollgate) {
        this.tollgate = tollgate;
    }

    @GetMapping({"/free", "/usual"})
    public Map<String, Boolean> free() {
        return AppSettings.OK;
    }

    @GetMapping("/bare")
    public Map<String, Boolean> bare(@RequestHeader("X-User") String user) {
        bare.check(user).join();
        return AppSettings.OK;
    }

    @GetMapping("/failures")
    public Map<FailureKind, Long> failures() {
        return tollgate.failures();
    }
}
