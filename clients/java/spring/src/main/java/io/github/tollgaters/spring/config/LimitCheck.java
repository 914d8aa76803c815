package io.github.tollgaters.spring.config;

import io.github.tollgaters.client.CheckRequest;
import io.github.tollgaters.client.Decision;
import io.github.tollgaters.client.FailureKind;
import io.github.tollgaters.client.LogLine;
import io.github.tollgaters.client.OnFailure;
import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.spring.support.LimitInCall;
import io.github.tollgaters.spring.support.LimitSource;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.context.ApplicationListener;

/**
 * Says at the start what is limited, and asks the service about each limit that goes with calls. One that it refuses is
 * without effect, and the first call would be too late to learn of it.
 */
final class LimitCheck implements ApplicationListener<ApplicationReadyEvent>, DisposableBean {

    private static final Log LOG = LogFactory.getLog(Tollgate.class);
    private static final int MAX_REPORTS = 20;
    private static final int MAX_PLACES = 3;
    private static final String DETAIL = "refused: ";
    /** Some attribute. Its value is hidden in what the service answers, so it is no word of an answer. */
    private static final Map<String, String> KEY = Map.of("key", "tollgate-start");

    private final Iterable<LimitSource> sources;
    private final String address;
    private final Function<Consumer<LogLine>, Tollgate> clients;
    private final AtomicBoolean done = new AtomicBoolean();
    private final AtomicReference<Tollgate> open = new AtomicReference<>();
    private volatile boolean closed;

    /**
     * Makes a check.
     *
     * @param sources what has limits
     * @param address whom the app asks
     * @param clients make a client of the same service with a log; null if the app has a client of its own
     */
    LimitCheck(Iterable<LimitSource> sources, String address, Function<Consumer<LogLine>, Tollgate> clients) {
        this.sources = sources;
        this.address = address;
        this.clients = clients;
    }

    private record Limit(String name, List<String> quotas) {}

    @Override
    public void onApplicationEvent(ApplicationReadyEvent event) {
        if (!done.compareAndSet(false, true)) {
            return;
        }
        StringBuilder limited = new StringBuilder();
        Map<Limit, List<String>> limits = new LinkedHashMap<>();
        for (LimitSource source : sources) {
            limited.append(limited.isEmpty() ? "" : ", ").append(source.limited());
            for (LimitInCall limit : source.limitsInCalls()) {
                limits.computeIfAbsent(new Limit(limit.name(), limit.quotas()), each -> new ArrayList<>())
                        .add(limit.place());
            }
        }
        LOG.info("tollgate: asks " + address + "; limits " + limited);
        if (clients != null && !limits.isEmpty()) {
            Thread thread = new Thread(() -> ask(limits), "tollgate-limits");
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void ask(Map<Limit, List<String>> limits) {
        int reports = 0;
        for (Map.Entry<Limit, List<String>> limit : limits.entrySet()) {
            if (closed) {
                return;
            }
            if (reports == MAX_REPORTS) {
                LOG.error("tollgate: the limits after these are not looked at");
                return;
            }
            Answer answer = ask(limit.getKey());
            if (answer.failure == FailureKind.REFUSED) {
                LOG.error(report(limit.getKey(), limit.getValue(), answer));
                reports++;
            } else if (answer.failure != null) {
                if (!closed && answer.line != null) {
                    TollgateAutoConfiguration.log(answer.line);
                }
                return;
            }
        }
    }

    private record Answer(FailureKind failure, OnFailure onFailure, LogLine line) {}

    /** Asks with a client of its own: each one logs its first failure at once. */
    private Answer ask(Limit limit) {
        AtomicReference<LogLine> line = new AtomicReference<>();
        Decision decision;
        OnFailure onFailure;
        try (Tollgate client = clients.apply(line::set)) {
            open.set(client);
            onFailure = client.onFailureOf(limit.name);
            decision = client.peek(CheckRequest.of(limit.name, KEY).quotas(limit.quotas));
        } finally {
            open.set(null);
        }
        // A client that is closed has logged its failures.
        return new Answer(decision.failure().orElse(null), onFailure, line.get());
    }

    private static String report(Limit limit, List<String> places, Answer answer) {
        String more = places.size() > MAX_PLACES ? " and " + (places.size() - MAX_PLACES) + " more" : "";
        String message = answer.line == null ? "" : answer.line.message();
        int detail = message.indexOf(DETAIL);
        return "tollgate: " + places.stream().limit(MAX_PLACES).collect(Collectors.joining(", ")) + more + ": the limit "
                + limit.quotas + (answer.onFailure == OnFailure.OPEN
                        ? " is without effect: all calls are admitted"
                        : " does not work: all calls are refused")
                + ". The service says: " + (detail < 0 ? message : message.substring(detail + DETAIL.length()));
    }

    @Override
    public void destroy() {
        closed = true;
        Tollgate client = open.get();
        if (client != null) {
            client.close();
        }
    }
}
