package com.example.billing;

import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.key.RateLimitKeyResolver;
import org.springframework.stereotype.Component;

/** The resolver of the guide of the Redis rate limiter starter, after a change of the imports. */
@Component
public class UserIdKeyResolver implements RateLimitKeyResolver {
  @Override
  public String resolveKey(RateLimitContext context) {
    Object[] args = context.getArguments();
    String userId = String.valueOf(args[0]); // Example: first argument is userId
    return "user:" + userId + ":" + context.getMethod().getName();
  }
}
