/** What records decisions. */
package io.github.tollgaters.spring.metrics;
