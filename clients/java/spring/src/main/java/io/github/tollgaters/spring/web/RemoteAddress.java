package io.github.tollgaters.spring.web;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Optional;

/** The address of a caller as a text. */
public final class RemoteAddress {

    private RemoteAddress() {}

    /**
     * Returns an address without its zone, which is no part of it.
     *
     * @param socket what a server gives; if it comes from a header of a proxy, it may be a text that was not looked up
     * @return the address; empty if there is none
     */
    public static Optional<String> of(InetSocketAddress socket) {
        if (socket == null) {
            return Optional.empty();
        }
        InetAddress address = socket.getAddress();
        String text = address != null ? address.getHostAddress() : socket.getHostString();
        return Optional.of(text.replaceAll("%.*|[\\[\\]]", "")).filter(found -> !found.isEmpty());
    }
}
