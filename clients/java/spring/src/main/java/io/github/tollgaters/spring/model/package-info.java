/** Limits and decisions. */
package io.github.tollgaters.spring.model;
