package io.github.tollgaters.spring.mvc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.tollgaters.spring.annotation.RateLimit;
import io.github.tollgaters.spring.exception.RateLimitExceededException;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.aop.support.AopUtils;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.core.annotation.AliasFor;
import org.springframework.stereotype.Service;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.ModelAttribute;
import org.springframework.web.bind.annotation.RestController;

/**
 * A limit of a method, of a class, of both and of a meta-annotation is enforced through a real Tomcat, the service and
 * Redis. In the starter whose names these are, only both together were: its pointcut joined the two by "and".
 */
class EnforcementTest {

    private static final Servers SERVERS = new Servers();
    private static String redis;
    private static App first;
    private static App second;

    @BeforeAll
    static void start() throws Exception {
        redis = SERVERS.redis();
        first = new App(Shop.class, service());
        second = new App(Shop.class, service());
    }

    private static String service() {
        return SERVERS.service("--limit", "9/1d", "--caller-quotas", "--store", redis, "--store-timeout", "10s")
                .url();
    }

    @AfterAll
    static void stop() throws Exception {
        first.close();
        second.close();
        SERVERS.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "/method-only", "/class-only", "/both", "/meta", "/inherited", "/interface-method", "/interface-class",
        "/service-method", "/service-class", "/generic", "/jdk-proxy", "/policy-object"
    })
    void admits_exactly_20_of_50_in_two_processes_of_an_app(String path) {
        List<CompletableFuture<Integer>> statuses = IntStream.range(0, 50)
                .mapToObj(i -> (i % 2 == 0 ? first : second).getAsync(path).thenApply(answer -> answer.statusCode()))
                .toList();
        List<Integer> answered = statuses.stream().map(CompletableFuture::join).toList();

        assertEquals(20, Collections.frequency(answered, 200), () -> path + " admitted another number: " + answered);
        assertEquals(30, Collections.frequency(answered, 429), () -> path + " denied another number: " + answered);
    }

    @Test
    void the_limit_of_a_method_replaces_that_of_its_class() {
        assertEquals(List.of(200, 200, 429), first.statuses(3, "/replaced"));
        assertEquals(List.of(200, 429), second.statuses(2, "/not-replaced"));
    }

    @Test
    void methods_of_a_limited_class_count_apart_and_helpers_do_not_count() {
        // Each request also calls a method with @ModelAttribute, and toString() of the bean.
        assertEquals(List.of(200, 200, 429), first.statuses(3, "/apart-a"));
        assertEquals(List.of(200, 200, 429), first.statuses(3, "/apart-b"));
    }

    @Test
    void a_call_within_the_same_object_is_not_limited() {
        assertEquals(List.of(200, 200, 200), first.statuses(3, "/self-call"));
    }

    @Test
    void a_bean_of_a_service_throws_where_there_is_no_request() {
        Orders orders = first.context().getBean(Orders.class);
        assertEquals("1", orders.outside("1"));

        RateLimitExceededException denied =
                assertThrows(RateLimitExceededException.class, () -> orders.outside("2"));
        assertEquals("outside", denied.getName());
        assertEquals(1, denied.getPolicy().getLimit());
    }

    @Retention(RetentionPolicy.RUNTIME)
    @Target({ElementType.METHOD, ElementType.TYPE})
    @RateLimit(limit = 20, duration = 1, timeUnit = TimeUnit.DAYS)
    @interface TwentyADay {
        @AliasFor(annotation = RateLimit.class, attribute = "key")
        String by() default "";
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({
        MethodOnly.class, ClassOnly.class, Both.class, Inherited.class, OfInterface.class, Orders.class, Stock.class,
        Apart.class, Texts.class
    })
    static class Shop {
        @Bean
        Prices prices() {
            ProxyFactory factory = new ProxyFactory(new FixedPrices());
            factory.setInterfaces(Prices.class);
            return (Prices) factory.getProxy();
        }
    }

    @RestController
    static class MethodOnly {
        private final Orders orders;
        private final Stock stock;
        private final Parser<String> texts;
        private final Prices prices;

        MethodOnly(Orders orders, Stock stock, Parser<String> texts, Prices prices) {
            this.orders = orders;
            this.stock = stock;
            this.texts = texts;
            this.prices = prices;
        }

        @RateLimit(limit = 20, duration = 1, timeUnit = TimeUnit.DAYS)
        @GetMapping("/method-only")
        String methodOnly() {
            return "ok";
        }

        @TwentyADay(by = "meta")
        @GetMapping("/meta")
        public String meta() {
            return "ok";
        }

        @GetMapping("/service-method")
        public String serviceMethod() {
            return orders.order("1");
        }

        @GetMapping("/service-class")
        public String serviceClass() {
            return stock.count();
        }

        @GetMapping("/generic")
        public String generic() {
            return texts.parse("text");
        }

        @GetMapping("/jdk-proxy")
        public String jdkProxy() {
            if (!AopUtils.isJdkDynamicProxy(prices)) {
                throw new IllegalStateException("this test is about JDK proxies");
            }
            return prices.price();
        }

        @RateLimit(name = "object", quotas = {"20/1d", "1000/1w"}, key = "#{ {path: 'a', plan: 'b'} }")
        @GetMapping("/policy-object")
        public String policyObject() {
            return "ok";
        }

        @GetMapping("/self-call")
        public String selfCall() {
            return limited();
        }

        @RateLimit(limit = 1, duration = 1, timeUnit = TimeUnit.DAYS)
        public String limited() {
            return "ok";
        }
    }

    @RestController
    @RateLimit(limit = 20, duration = 1, timeUnit = TimeUnit.DAYS)
    static class ClassOnly {
        @GetMapping("/class-only")
        public String classOnly() {
            return "ok";
        }
    }

    @RestController
    @RateLimit(limit = 1, duration = 1, timeUnit = TimeUnit.DAYS)
    static class Both {
        @RateLimit(limit = 20, duration = 1, timeUnit = TimeUnit.DAYS)
        @GetMapping("/both")
        public String both() {
            return "ok";
        }

        @RateLimit(limit = 2, duration = 1, timeUnit = TimeUnit.DAYS)
        @GetMapping("/replaced")
        public String replaced() {
            return "ok";
        }

        @GetMapping("/not-replaced")
        public String notReplaced() {
            return "ok";
        }
    }

    @RateLimit(limit = 20, duration = 1, timeUnit = TimeUnit.DAYS)
    abstract static class Base {
        @GetMapping("/inherited")
        public String inherited() {
            return "ok";
        }
    }

    @RestController
    static class Inherited extends Base {}

    interface WithMethod {
        @RateLimit(limit = 20, duration = 1, timeUnit = TimeUnit.DAYS)
        @GetMapping("/interface-method")
        String interfaceMethod();
    }

    @RateLimit(limit = 20, duration = 1, timeUnit = TimeUnit.DAYS)
    interface WithClass {
        @GetMapping("/interface-class")
        String interfaceClass();
    }

    @RestController
    static class OfInterface implements WithMethod, WithClass {
        @Override
        public String interfaceMethod() {
            return "ok";
        }

        @Override
        public String interfaceClass() {
            return "ok";
        }
    }

    @Service
    static class Orders {
        @RateLimit(name = "orders", limit = 20, duration = 1, timeUnit = TimeUnit.DAYS, key = "#{#id}")
        String order(String id) {
            return "ok";
        }

        @RateLimit(value = "outside", limit = 1, duration = 1, timeUnit = TimeUnit.DAYS)
        public String outside(String id) {
            return id;
        }
    }

    @Service
    @RateLimit(quotas = "20/1d")
    static class Stock {
        public String count() {
            return "ok";
        }
    }

    interface Parser<T> {
        String parse(T text);
    }

    @Service
    static class Texts implements Parser<String> {
        @Override
        @RateLimit(quotas = "20/1d", key = "#{#text}")
        public String parse(String text) {
            return "ok";
        }
    }

    interface Prices {
        @RateLimit(quotas = "20/1d")
        String price();
    }

    static class FixedPrices implements Prices {
        @Override
        public String price() {
            return "ok";
        }
    }

    @RestController
    @RateLimit(limit = 2, duration = 1, timeUnit = TimeUnit.DAYS)
    static class Apart {
        @ModelAttribute("shop")
        public String shop() {
            return "shop";
        }

        @GetMapping("/apart-a")
        public String a() {
            return "ok";
        }

        @GetMapping("/apart-b")
        public String b() {
            return "ok";
        }

        @Override
        public String toString() {
            return "apart";
        }
    }
}
