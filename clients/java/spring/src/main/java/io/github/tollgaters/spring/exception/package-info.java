/** What a refused call throws, and how web requests are answered. */
package io.github.tollgaters.spring.exception;
