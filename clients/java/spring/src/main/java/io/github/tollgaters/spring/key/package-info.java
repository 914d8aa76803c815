/** What a call is counted by. */
package io.github.tollgaters.spring.key;
