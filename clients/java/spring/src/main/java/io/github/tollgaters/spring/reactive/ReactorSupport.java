package io.github.tollgaters.spring.reactive;

import io.github.tollgaters.spring.core.RateLimitContext;
import io.github.tollgaters.spring.web.WebCaller;
import io.github.tollgaters.spring.web.WebCallerSource;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.reactivestreams.Publisher;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.ContextView;

/**
 * Limits methods that return a {@code Mono}, a {@code Flux}, or another reactive type that Spring knows.
 *
 * <p>Each subscription is one check. The method is called after it, on a thread of Reactor's parallel scheduler, and
 * the subscriber's context reaches it. A denial is an error signal.
 */
public class ReactorSupport implements ReactiveSupport {
    private final ReactiveAdapterRegistry adapters = ReactiveAdapterRegistry.getSharedInstance();
    private final Callers callers;
    private final List<WebCallerSource> sources;

    /**
     * Creates the support.
     *
     * @param callers finds the caller of the web request in the context of a subscriber; empty outside of requests
     * @param sources find the caller of the thread that calls the method, for subscribers without one in their context
     */
    public ReactorSupport(Callers callers, List<WebCallerSource> sources) {
        this.callers = Objects.requireNonNull(callers, "callers");
        this.sources = List.copyOf(sources);
    }

    /**
     * Returns whether the method returns a reactive type that Spring can make. A future is none: its method runs when it is called, so it
     * is checked before.
     */
    @Override
    public boolean supports(Method method) {
        ReactiveAdapter adapter = adapters.getAdapter(method.getReturnType());
        // Of a subtype, such as ParallelFlux, Spring can make no instance.
        return adapter != null
                && adapter.getDescriptor().isDeferred()
                && method.getReturnType().isAssignableFrom(adapter.getReactiveType());
    }

    @Override
    public Object invoke(ReactiveInvocation invocation) {
        ReactiveAdapter adapter = adapters.getAdapter(invocation.getMethod().getReturnType());
        Optional<WebCaller> ofThread =
                sources.stream().flatMap(source -> source.current().stream()).findFirst();
        boolean withUser = invocation.mayReadUser();
        Mono<Call> gate = Mono.deferContextual(context -> callers.of(context, withUser)
                .map(Optional::of)
                .defaultIfEmpty(ofThread)
                .flatMap(caller -> enforce(invocation, caller)));
        return adapter.fromPublisher(
                adapter.isMultiValue()
                        ? gate.flatMapMany(call -> Flux.from(call.publisher(adapter)))
                        : gate.flatMap(call -> Mono.from(call.publisher(adapter))));
    }

    /** Returns whether this is no thread of an event loop or a scheduler that must not block. */
    @Override
    public boolean mayWait() {
        return !Schedulers.isInNonBlockingThread();
    }

    /** Returns what to call: the method, or its fallback. Errors of these must not reach the fallback. */
    private static Mono<Call> enforce(ReactiveInvocation invocation, Optional<WebCaller> caller) {
        RateLimitContext context = invocation.contextOf(caller);
        // A subscriber that leaves does not take back what is counted, so the call is not cancelled.
        return Mono.fromFuture(() -> invocation.enforce(context), true)
                // The method must not run on a thread of the client.
                .publishOn(Schedulers.parallel())
                .<Call>then(Mono.just(invocation::proceed))
                .onErrorResume(
                        error -> invocation.hasFallbackFor(error),
                        error -> Mono.just(() -> invocation.fallback(error)));
    }

    /** Finds the caller of a web request. */
    @FunctionalInterface
    public interface Callers {

        /**
         * Finds the caller of the request in the context of a subscriber.
         *
         * @param context the context
         * @param withUser whether the limit may ask for the user
         * @return the caller; empty outside of requests
         */
        Mono<WebCaller> of(ContextView context, boolean withUser);
    }

    private interface Call {
        Object run() throws Throwable;

        default Publisher<Object> publisher(ReactiveAdapter adapter) {
            try {
                return adapter.toPublisher(run());
            } catch (Throwable error) {
                Exceptions.throwIfFatal(error);
                return Mono.error(error);
            }
        }
    }
}
