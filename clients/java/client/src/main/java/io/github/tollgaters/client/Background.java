package io.github.tollgaters.client;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The threads of a client: one for times, and one for each asynchronous call in flight. They are daemons, start
 * when they are needed, and end when there is nothing to do.
 */
final class Background {
    private static final Duration IDLE = Duration.ofSeconds(10);
    /** Threads beyond the connections, for those in which the app's own stages of a future wait for something. */
    private static final int MAX_WAITING_STAGES = 64;
    private static final Executor STANDARD = new CompletableFuture<Void>().defaultExecutor();

    private final ScheduledThreadPoolExecutor timers;
    private final ThreadPoolExecutor workers;
    private final Set<Task> planned = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    Background(int maxConnections) {
        timers = new ScheduledThreadPoolExecutor(1, factory("tollgate-timer"));
        timers.setKeepAliveTime(IDLE.toMillis(), TimeUnit.MILLISECONDS);
        timers.allowCoreThreadTimeOut(true);
        timers.setRemoveOnCancelPolicy(true);
        workers = new ThreadPoolExecutor(0, maxConnections + MAX_WAITING_STAGES, IDLE.toMillis(), TimeUnit.MILLISECONDS,
                new SynchronousQueue<>(), factory("tollgate-call"), (task, pool) -> STANDARD.execute(task));
    }

    private static ThreadFactory factory(String name) {
        AtomicInteger number = new AtomicInteger();
        return task -> {
            // Without the thread locals and the class loader of the caller who happens to be the first.
            Thread thread = new Thread(null, task, name + "-" + number.incrementAndGet(), 0, false);
            thread.setDaemon(true);
            thread.setContextClassLoader(Background.class.getClassLoader());
            return thread;
        };
    }

    /** Something that runs once: at its time, or when the client is closed. */
    final class Task implements Runnable {
        private final AtomicReference<Runnable> work;
        private Future<?> timer;

        private Task(Runnable work) {
            this.work = new AtomicReference<>(work);
        }

        @Override
        public void run() {
            planned.remove(this);
            Runnable left = work.getAndSet(null);
            if (left != null) {
                left.run();
            }
        }

        void cancel() {
            planned.remove(this);
            work.set(null);
            timer.cancel(false);
        }
    }

    /** Runs a task in a thread of the client. It may wait. */
    void execute(Runnable task) {
        workers.execute(task);
    }

    /** Runs a task after a time, or at once if the client is closed. It must not wait. */
    Task schedule(Runnable work, Duration delay) {
        Task task = new Task(work);
        planned.add(task);
        try {
            task.timer = timers.schedule(task, delay.toNanos(), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException closed) {
            task.timer = CompletableFuture.completedFuture(null);
            task.run();
        }
        return task;
    }

    boolean isClosed() {
        return closed;
    }

    /** Runs what is planned, and ends the threads that wait for something to do. */
    void close() {
        closed = true;
        timers.shutdown();
        planned.forEach(Task::run);
        timers.shutdownNow();
        workers.shutdown();
    }
}
