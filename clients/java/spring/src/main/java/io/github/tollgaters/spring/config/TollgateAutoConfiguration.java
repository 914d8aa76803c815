package io.github.tollgaters.spring.config;

import io.github.tollgaters.client.LogLine;
import io.github.tollgaters.client.OnFailure;
import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.client.TollgateBuilder;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.config.BeanFactoryPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;

/** Makes the client of the service from the properties that begin with {@code tollgate}. */
@AutoConfiguration
@EnableConfigurationProperties(TollgateProperties.class)
public class TollgateAutoConfiguration {

    private static final Log LOG = LogFactory.getLog(Tollgate.class);
    private static final String DEFAULT_URL = "http://127.0.0.1:8080";
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    /** Makes the configuration. */
    public TollgateAutoConfiguration() {}

    /**
     * Returns what looks for names of properties that nothing reads, before there is any bean.
     *
     * @param environment the properties
     * @return the check
     */
    @Bean
    static BeanFactoryPostProcessor tollgatePropertyNames(Environment environment) {
        return beans -> PropertyNames.check(environment);
    }

    /**
     * Returns the client. It connects at its first call.
     *
     * @param properties the properties
     * @return the client
     */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public Tollgate tollgate(TollgateProperties properties) {
        return clientOf(properties, properties.timeout(), TollgateAutoConfiguration::log);
    }

    /** Says that the client is that of the properties, and makes others like it. */
    @FunctionalInterface
    interface Clients {
        Tollgate make(Consumer<LogLine> logger);
    }

    /** Comes before the client, so it is absent if the app has one of its own. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingBean(Tollgate.class)
    static class Own {
        @Bean
        Clients tollgateClients(TollgateProperties properties) {
            // Nobody waits for these, and the first call of a JVM is slow.
            Duration timeout = properties.timeout().compareTo(PATIENCE) < 0 ? PATIENCE : properties.timeout();
            return logger -> clientOf(properties, timeout, logger);
        }
    }

    static String addressOf(TollgateProperties properties) {
        String named = properties.url() != null ? properties.url() : System.getenv("TOLLGATE_URL");
        return named == null || named.isEmpty() ? DEFAULT_URL : named;
    }

    static Tollgate clientOf(TollgateProperties properties, Duration timeout, Consumer<LogLine> logger) {
        try {
            TollgateBuilder builder = Tollgate.builder()
                    .timeout(timeout)
                    .onFailure(properties.onFailure())
                    .maxConnections(properties.maxConnections())
                    .logger(logger);
            if (properties.url() != null) {
                builder.url(properties.url());
            }
            if (properties.token() != null) {
                builder.token(properties.token());
            }
            properties.closedNames().forEach(name -> builder.onFailure(name, OnFailure.CLOSED));
            return builder.build();
        } catch (IllegalArgumentException wrong) {
            throw named(properties, wrong);
        }
    }

    /** Names the property, in place of the setting of the client. The address is not repeated: it may have a password. */
    private static IllegalArgumentException named(TollgateProperties properties, IllegalArgumentException wrong) {
        Map<String, String> names = Map.of(
                "the URL ", "tollgate.url",
                "TOLLGATE_URL ", "TOLLGATE_URL",
                "the token ", properties.token() != null ? "tollgate.token" : "TOLLGATE_TOKEN",
                "maxConnections ", "tollgate.max-connections");
        String problem = wrong.getMessage();
        for (Map.Entry<String, String> name : names.entrySet()) {
            if (problem.startsWith(name.getKey())) {
                return new InvalidPropertyException(name.getValue(), problem.substring(name.getKey().length()), wrong);
            }
        }
        return wrong;
    }

    static void log(LogLine line) {
        if (line.level().compareTo(System.Logger.Level.ERROR) >= 0) {
            LOG.error(line.message());
        } else {
            LOG.warn(line.message());
        }
    }
}
