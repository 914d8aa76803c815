package kotlin.coroutines;

/** The last parameter of Kotlin's suspend functions, in place of Kotlin's library. */
public interface Continuation<T> {}
