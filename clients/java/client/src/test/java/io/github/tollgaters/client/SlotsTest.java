package io.github.tollgaters.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class SlotsTest {
    @Test
    void aSlotGoesToTheFirstWaiter() {
        Slots slots = new Slots(1);
        assertTrue(slots.take());
        assertFalse(slots.take());
        CompletableFuture<Boolean> first = slots.await();
        CompletableFuture<Boolean> second = slots.await();
        slots.give();
        assertTrue(first.getNow(false));
        assertFalse(second.isDone());
        slots.give();
        assertTrue(second.getNow(false));
        slots.give();
        assertTrue(slots.take());
    }

    @Test
    void aWaiterThatGaveUpLosesNoSlot() {
        Slots slots = new Slots(1);
        assertTrue(slots.take());
        CompletableFuture<Boolean> first = slots.await();
        CompletableFuture<Boolean> second = slots.await();
        CompletableFuture<Boolean> third = slots.await();
        assertTrue(slots.giveUp(first));
        // This one gives up between its removal and its completion.
        second.complete(false);
        slots.give();
        assertTrue(third.getNow(false));
        assertFalse(slots.giveUp(third));
        slots.give();
        assertTrue(slots.take());
    }
}
