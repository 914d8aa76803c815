/** What puts checks in front of methods, and finds their annotations. */
package io.github.tollgaters.spring.aspect;
