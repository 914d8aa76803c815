package io.github.tollgaters.client;

import java.net.InetAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Looks the host of the service up. A lookup may take far longer than a call, so it has a thread of its own, and all
 * calls share one.
 */
final class Hosts {
    private final String host;
    private final Background background;
    private final ReentrantLock lock = new ReentrantLock();
    private CompletableFuture<List<InetAddress>> lookup;

    Hosts(String host, Background background) {
        this.host = host;
        this.background = background;
    }

    /** Returns the addresses of the host, in the order of the system. */
    List<InetAddress> lookup(Duration timeout) throws CallFailure {
        try {
            return shared().get(timeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            throw new CallFailure(FailureKind.TIMEOUT, "no address of " + host + " within the timeout");
        } catch (ExecutionException failed) {
            throw new CallFailure(FailureKind.CONNECTION, "the host " + host + " has no address");
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw HttpTransport.interrupted();
        }
    }

    private CompletableFuture<List<InetAddress>> shared() {
        lock.lock();
        try {
            // A finished one is not kept: the system has a cache that knows how long.
            if (lookup == null || lookup.isDone()) {
                CompletableFuture<List<InetAddress>> started = new CompletableFuture<>();
                background.execute(() -> complete(started));
                lookup = started;
            }
            return lookup;
        } finally {
            lock.unlock();
        }
    }

    private void complete(CompletableFuture<List<InetAddress>> started) {
        try {
            started.complete(List.of(InetAddress.getAllByName(host)));
        } catch (Throwable failed) {
            // Whatever it is, such as of the app's own resolver: the next call looks again.
            started.completeExceptionally(failed);
        }
    }
}
