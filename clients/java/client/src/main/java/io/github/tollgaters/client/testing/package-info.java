/** A client without a service, for the tests of an app. */
package io.github.tollgaters.client.testing;
