/** The default implementations. */
package io.github.tollgaters.spring.support;
