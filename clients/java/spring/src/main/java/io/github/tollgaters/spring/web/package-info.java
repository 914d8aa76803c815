/** Callers of web requests. */
package io.github.tollgaters.spring.web;
