/** The properties of the starter, and its auto-configurations. */
package io.github.tollgaters.spring.config;
