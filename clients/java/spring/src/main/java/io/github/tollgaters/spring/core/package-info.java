/** What decides about a call. Each interface is a bean that an app can replace. */
package io.github.tollgaters.spring.core;
