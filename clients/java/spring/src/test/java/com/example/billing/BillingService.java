package com.example.billing;

import io.github.tollgaters.spring.annotation.RateLimit;
import java.util.concurrent.TimeUnit;
import org.springframework.stereotype.Service;

/** The examples of the guide of the Redis rate limiter starter, after a change of the imports. */
@Service
public class BillingService {

  @RateLimit(
      name = "invoice-create",
      scope = "GLOBAL",
      limit = 10,
      duration = 1,
      timeUnit = TimeUnit.MINUTES
  )
  public String createInvoice(String accountId) {
    return "ok";
  }

  @RateLimit(
      name = "invoice-create-per-user",
      scope = "USER",
      keyResolver = UserIdKeyResolver.class,
      limit = 5,
      duration = 1,
      timeUnit = TimeUnit.MINUTES
  )
  public String createInvoice(String userId, String accountId) {
    return "ok";
  }
}
