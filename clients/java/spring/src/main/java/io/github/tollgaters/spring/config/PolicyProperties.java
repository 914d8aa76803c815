package io.github.tollgaters.spring.config;

import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Settings of the checks under one name.
 *
 * @param enabled Whether these checks are made.
 */
public record PolicyProperties(@DefaultValue("true") boolean enabled) {
}
