package io.github.tollgaters.apps;

import io.github.tollgaters.client.Tollgate;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import redis.clients.jedis.JedisPool;

/** The app on Spring MVC with a filter of a URL, and with a filter of bucket4j's starter as the usual limiter. */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import(FilterApp.Controller.class)
public class FilterApp {

    private static final List<String> LIMITED = List.of(
            "tollgate.filters[0].url=/limited",
            "tollgate.filters[0].name=search",
            "tollgate.filters[0].attributes.user=#{#request.getHeader('X-User')}");

    public static void main(String[] arguments) {
        List<String> properties = new ArrayList<>(AppSettings.NO_GATEWAY);
        properties.addAll(ServletPaths.USUAL);
        properties.addAll(LIMITED);
        AppSettings.run(FilterApp.class, WebApplicationType.SERVLET, properties);
    }

    @Bean
    JedisPool jedisPool() {
        return new JedisPool(AppSettings.REDIS);
    }

    @RestController
    static class Controller extends ServletPaths {

        Controller(Tollgate tollgate) {
            super(tollgate);
        }

        @GetMapping("/limited")
        public Map<String, Boolean> limited() {
            return AppSettings.OK;
        }
    }
}
