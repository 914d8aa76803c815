package io.github.tollgaters.apps;

import io.github.tollgaters.client.Tollgate;
import io.github.tollgaters.spring.annotation.RateLimit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RestController;
import redis.clients.jedis.JedisPool;

/** The app on Spring MVC with an annotation, and with bucket4j's starter as the usual limiter. */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import(MvcApp.Controller.class)
public class MvcApp {

    public static void main(String[] arguments) {
        List<String> properties = new ArrayList<>(AppSettings.NO_GATEWAY);
        properties.addAll(ServletPaths.USUAL);
        AppSettings.run(MvcApp.class, WebApplicationType.SERVLET, properties);
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
        @RateLimit(name = "search", key = "#{ {user: #user} }")
        public Map<String, Boolean> limited(@RequestHeader("X-User") String user) {
            return AppSettings.OK;
        }
    }
}
