/** A rate limiter of Spring Cloud Gateway. */
package io.github.tollgaters.spring.gateway;
