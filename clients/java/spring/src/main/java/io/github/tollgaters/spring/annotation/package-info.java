/** The annotation that limits methods and classes. */
package io.github.tollgaters.spring.annotation;
