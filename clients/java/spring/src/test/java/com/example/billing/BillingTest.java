package com.example.billing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.tollgaters.spring.exception.RateLimitExceededException;
import io.github.tollgaters.spring.mvc.Servers;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** The examples and properties of the Redis rate limiter starter work after a change of the import and the prefix. */
class BillingTest {

    private final Servers servers = new Servers();

    @AfterEach
    void stop() {
        servers.close();
    }

    @Test
    void the_examples_of_the_guide_are_limited() {
        String url = servers.service("--limit", "1/1d", "--caller-quotas").url();
        try (ConfigurableApplicationContext context = new SpringApplicationBuilder(App.class)
                .web(WebApplicationType.NONE)
                .run(
                        "--spring.main.banner-mode=off",
                        "--logging.level.root=warn",
                        "--tollgate.url=" + url,
                        "--tollgate.timeout=20s",
                        "--tollgate.enabled=true",
                        "--tollgate.redis-key-prefix=ratelimiter",
                        "--tollgate.fail-open=false",
                        "--tollgate.include-http-headers=true",
                        "--tollgate.metrics-enabled=true")) {
            BillingService billing = context.getBean(BillingService.class);
            for (int i = 0; i < 10; i++) {
                assertEquals("ok", billing.createInvoice("account-" + i));
            }
            RateLimitExceededException denied =
                    assertThrows(RateLimitExceededException.class, () -> billing.createInvoice("account"));
            assertEquals("invoice-create", denied.getName());
            assertEquals("global:com.example.billing.BillingService#createInvoice", denied.getKey());
            assertEquals(10, denied.getPolicy().getLimit());
            for (int i = 0; i < 5; i++) {
                assertEquals("ok", billing.createInvoice("alice", "account"));
            }
            RateLimitExceededException alice =
                    assertThrows(RateLimitExceededException.class, () -> billing.createInvoice("alice", "account"));
            assertEquals("user:alice:createInvoice", alice.getKey());
            assertEquals("ok", billing.createInvoice("bob", "account"));
        }
    }

    /** An app of the guide. */
    @SpringBootApplication
    static class App {}
}
