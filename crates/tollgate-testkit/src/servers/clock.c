/*
 * A wall clock that a test can move, for a server that is started with this library preloaded.
 *
 * TOLLGATE_CLOCK names a symbolic link whose text says the time: "@<n>" stands still at n microseconds of Unix time,
 * "<n>" runs n microseconds beside the system's clock. A link, because a test replaces its text as a whole (rename)
 * and one system call reads it as a whole. Monotonic clocks are left alone: servers measure their own timers by them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct timespec wall(void)
{
    int kept = errno;
    struct timespec now;
    /* Not through the C library, whose function is the one defined below. */
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    const char *link = getenv("TOLLGATE_CLOCK");
    char text[64];
    ssize_t length = link ? readlink(link, text, sizeof text - 1) : -1;
    if (length > 0) {
        text[length] = 0;
        int still = text[0] == '@';
        long long micros = strtoll(text + still, NULL, 10);
        if (!still)
            micros += now.tv_sec * 1000000LL + now.tv_nsec / 1000;
        now.tv_sec = micros / 1000000;
        now.tv_nsec = micros % 1000000 * 1000;
    }
    errno = kept;
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return syscall(SYS_clock_gettime, clock, now);
    *now = wall();
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec wall_now = wall();
    now->tv_sec = wall_now.tv_sec;
    now->tv_usec = wall_now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    time_t seconds = wall().tv_sec;
    if (now)
        *now = seconds;
    return seconds;
}
