package io.github.tollgaters.client;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;

/** A number of slots, one for each connection. Callers that find none wait in their order. */
final class Slots {
    private final ReentrantLock lock = new ReentrantLock();
    private final Set<CompletableFuture<Boolean>> waiters = new LinkedHashSet<>();
    private int free;

    Slots(int count) {
        free = count;
    }

    /** Takes a slot, if one is free. */
    boolean take() {
        lock.lock();
        try {
            if (free == 0) {
                return false;
            }
            free -= 1;
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Waits for a slot. The future is completed with true when the caller has one; {@link #giveUp} ends the wait. */
    CompletableFuture<Boolean> await() {
        CompletableFuture<Boolean> waiter = new CompletableFuture<>();
        lock.lock();
        try {
            if (free == 0) {
                waiters.add(waiter);
                return waiter;
            }
            free -= 1;
        } finally {
            lock.unlock();
        }
        waiter.complete(true);
        return waiter;
    }

    /** Ends a wait. Returns false if the waiter has got a slot meanwhile. */
    boolean giveUp(CompletableFuture<Boolean> waiter) {
        lock.lock();
        try {
            waiters.remove(waiter);
        } finally {
            lock.unlock();
        }
        return waiter.complete(false);
    }

    /** Gives a slot back, to the first waiter if there is one. */
    void give() {
        for (CompletableFuture<Boolean> first = next(); first != null; first = next()) {
            if (first.complete(true)) {
                return;
            }
        }
    }

    /** Removes and returns the first waiter. Without one, the slot is free. */
    private CompletableFuture<Boolean> next() {
        lock.lock();
        try {
            if (waiters.isEmpty()) {
                free += 1;
                return null;
            }
            CompletableFuture<Boolean> first = waiters.iterator().next();
            waiters.remove(first);
            return first;
        } finally {
            lock.unlock();
        }
    }
}
