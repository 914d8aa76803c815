package io.github.tollgaters.client;

import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import javax.net.ssl.SSLContext;

/** The settings of a client. Each has a default, so {@code Tollgate.builder().build()} is usable. */
public final class TollgateBuilder {
    private static final String DEFAULT_URL = "http://127.0.0.1:8080";
    private static final Duration MIN_TIMEOUT = Duration.ofMillis(1);
    private static final Duration MAX_TIMEOUT = Duration.ofMinutes(1);
    private static final int MAX_CONNECTIONS = 65_536;

    private String url;
    private String token;
    private Duration timeout = Duration.ofMillis(250);
    private OnFailure onFailure = OnFailure.OPEN;
    private final Map<String, OnFailure> names = new HashMap<>();
    private int maxConnections = 64;
    private Consumer<LogLine> logger = TollgateBuilder::log;
    private SSLContext sslContext;
    private Transport transport;

    TollgateBuilder() {
    }

    /**
     * Sets where the service listens: {@code http://HOST:PORT}, {@code https://HOST:PORT} or {@code unix:/absolute/path}.
     * Default: {@code TOLLGATE_URL}, then {@code http://127.0.0.1:8080}.
     *
     * @param url the address
     * @return this
     */
    public TollgateBuilder url(String url) {
        this.url = Objects.requireNonNull(url, "url");
        return this;
    }

    /**
     * Sets the token that is sent with every request. Default: {@code TOLLGATE_TOKEN}, then none.
     *
     * @param token the token of the caller
     * @return this
     */
    public TollgateBuilder token(String token) {
        this.token = Objects.requireNonNull(token, "token");
        return this;
    }

    /**
     * Sets the time within which every call ends, from 1 ms to 1 min. Default: 250 ms, which is over twice the time that
     * the service waits for its store, so that its own answers during an outage arrive.
     *
     * @param timeout the time
     * @return this
     * @throws IllegalArgumentException if it is out of its range
     */
    public TollgateBuilder timeout(Duration timeout) {
        if (timeout == null || timeout.compareTo(MIN_TIMEOUT) < 0 || timeout.compareTo(MAX_TIMEOUT) > 0) {
            throw new IllegalArgumentException("the timeout " + timeout + " is not from 1 ms to 1 min");
        }
        this.timeout = timeout;
        return this;
    }

    /**
     * Sets what the client answers if the service does not. Default: it admits.
     *
     * @param answer for all names that have none of their own
     * @return this
     */
    public TollgateBuilder onFailure(OnFailure answer) {
        this.onFailure = Objects.requireNonNull(answer, "onFailure");
        return this;
    }

    /**
     * Sets what the client answers for one name, such as {@code login}, if the service does not.
     *
     * @param name of checks, or the policy of counts
     * @param answer for this name
     * @return this
     */
    public TollgateBuilder onFailure(String name, OnFailure answer) {
        names.put(Objects.requireNonNull(name, "name"), Objects.requireNonNull(answer, "onFailure"));
        return this;
    }

    /**
     * Sets how many connections there are at most. A further call waits for one within its timeout. Default: 64.
     *
     * @param maxConnections from 1 to 65,536
     * @return this
     * @throws IllegalArgumentException if it is out of its range
     */
    public TollgateBuilder maxConnections(int maxConnections) {
        if (maxConnections < 1 || maxConnections > MAX_CONNECTIONS) {
            throw new IllegalArgumentException("maxConnections is " + maxConnections + ", not from 1 to " + MAX_CONNECTIONS);
        }
        this.maxConnections = maxConnections;
        return this;
    }

    /**
     * Sets what gets a line a minute if calls have no answer. Default: the {@link System.Logger} of this package.
     *
     * @param logger called by the threads of the app and the client
     * @return this
     */
    public TollgateBuilder logger(Consumer<LogLine> logger) {
        this.logger = Objects.requireNonNull(logger, "logger");
        return this;
    }

    /**
     * Sets which certificates an {@code https} address accepts. Their name is compared with the host in any case.
     * Default: the context of the JVM, which properties such as {@code javax.net.ssl.trustStore} set.
     *
     * @param sslContext such as one that trusts a private authority
     * @return this
     */
    public TollgateBuilder sslContext(SSLContext sslContext) {
        this.sslContext = Objects.requireNonNull(sslContext, "sslContext");
        return this;
    }

    /**
     * Sets what sends the requests. The client closes it at its own end. Default: HTTP/1.1 to the address.
     *
     * @param transport in place of the client's own
     * @return this
     */
    public TollgateBuilder transport(Transport transport) {
        this.transport = Objects.requireNonNull(transport, "transport");
        return this;
    }

    /**
     * Makes a client. It opens no connection: the service may start later.
     *
     * @return the client
     * @throws IllegalArgumentException if the address or the token is wrong
     */
    public Tollgate build() {
        Address address = address();
        Settings settings = new Settings(address.toString(), checkedToken(), timeout, onFailure, Map.copyOf(names),
                maxConnections, logger);
        Background background = new Background(maxConnections);
        if (transport != null) {
            return new Client(settings, transport, background);
        }
        SSLContext tls = tlsFor(address);
        WarmUp.run(address, tls);
        return new Client(settings, new HttpTransport(address, tls, background), background);
    }

    private SSLContext tlsFor(Address address) {
        if (!address.isTls() || sslContext != null) {
            return sslContext;
        }
        try {
            return SSLContext.getDefault();
        } catch (NoSuchAlgorithmException wrong) {
            throw new IllegalArgumentException("the JVM has no TLS: " + wrong.getMessage(), wrong);
        }
    }

    private Address address() {
        if (url != null) {
            return Address.parse(url, "the URL");
        }
        String named = System.getenv("TOLLGATE_URL");
        return named == null || named.isEmpty() ? Address.parse(DEFAULT_URL, "the URL") : Address.parse(named, "TOLLGATE_URL");
    }

    private String checkedToken() {
        String named = System.getenv("TOLLGATE_TOKEN");
        String used = token != null ? token : named == null || named.isEmpty() ? null : named;
        if (used != null && used.isEmpty()) {
            throw new IllegalArgumentException("the token is empty");
        }
        if (used != null && !used.chars().allMatch(unit -> unit > 0x20 && unit < 0x7f)) {
            throw new IllegalArgumentException("the token has a character that a header cannot have");
        }
        return used;
    }

    private static void log(LogLine line) {
        System.getLogger("io.github.tollgaters.client").log(line.level(), line.message());
    }

    /** Returns what a log may show: no address, which may have a password, and no token. */
    @Override
    public String toString() {
        return "TollgateBuilder[timeout=" + timeout + ", onFailure=" + onFailure + ", maxConnections=" + maxConnections + "]";
    }
}
