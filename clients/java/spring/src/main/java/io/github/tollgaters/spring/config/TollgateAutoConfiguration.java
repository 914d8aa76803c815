package io.github.tollgaters.spring.config;

import io.github.tollgaters.client.LogLine;
import io.github.tollgaters.client.OnFailure;
import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.client.TollgateBuilder;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.config.BeanFactoryPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;

/** Makes the client of the service from the properties that begin with {@code tollgate}. */
@AutoConfiguration
@EnableConfigurationProperties(TollgateProperties.class)
public class TollgateAutoConfiguration {

    private static final Log LOG = LogFactory.getLog(Tollgate.class);

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
        TollgateBuilder builder = Tollgate.builder()
                .timeout(properties.timeout())
                .onFailure(properties.onFailure())
                .maxConnections(properties.maxConnections())
                .logger(TollgateAutoConfiguration::log);
        if (properties.url() != null) {
            builder.url(properties.url());
        }
        if (properties.token() != null) {
            builder.token(properties.token());
        }
        properties.closedNames().forEach(name -> builder.onFailure(name, OnFailure.CLOSED));
        return builder.build();
    }

    private static void log(LogLine line) {
        if (line.level().compareTo(System.Logger.Level.ERROR) >= 0) {
            LOG.error(line.message());
        } else {
            LOG.warn(line.message());
        }
    }
}
