/** Limits of methods whose result comes later. */
package io.github.tollgaters.spring.reactive;
