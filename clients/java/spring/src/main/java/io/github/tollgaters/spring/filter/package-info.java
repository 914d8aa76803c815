/** Limits of URLs, which properties declare. */
package io.github.tollgaters.spring.filter;
