// Clocks go forward and agree with each other, through the vdso and by system call; sleeps take their time; timers.
#include "../program.h"
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

static int64_t ns(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }

int main(void)
{
    struct timespec a, b, c;
    int64_t last = 0;
    for (int i = 0; i < 1000; i++)
    {
        clock_gettime(CLOCK_MONOTONIC, &a);
        must(ns(a) >= last);
        last = ns(a);
    }
    clock_gettime(CLOCK_MONOTONIC, &a);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b);
    clock_gettime(CLOCK_MONOTONIC, &c);
    printf("in order %d\n", ns(a) <= ns(b) && ns(b) <= ns(c));
    struct timeval tv;
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    gettimeofday(&tv, NULL);
    time_t now = time(NULL);
    printf("agree %d %d\n", tv.tv_sec - real.tv_sec <= 1, now - real.tv_sec <= 1 && now >= 1600000000);
    static const clockid_t clocks[] = {CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (int i = 0; i < 7; i++)
    {
        printf("%d ", clock_gettime(clocks[i], &c) == 0 && ns(c) > 0);
    }
    clock_getres(CLOCK_MONOTONIC, &c);
    printf("%ld %d\n", c.tv_nsec, clock_gettime(99, &c));
    clock_gettime(CLOCK_MONOTONIC, &a);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    usleep(1000);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("slept %d\n", ns(b) - ns(a) >= 6000000);
    b.tv_nsec = (b.tv_nsec + 2000000) % 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &b, NULL);
    unsigned cpu = 99, node = 99;
    must(syscall(SYS_getcpu, &cpu, &node, NULL) == 0 && cpu < 1024);
    struct tms used;
    printf("%d %d\n", times(&used) != -1, clock() >= 0);
    struct tm *date = gmtime(&(time_t){86400 * 365});
    printf("%d %s", date->tm_year, ctime(&(time_t){0}));
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    signal(SIGRTMIN, SIG_IGN);
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec spec = {.it_value = {1000, 0}};
    must(timer_settime(timer, 0, &spec, NULL) == 0 && timer_gettime(timer, &spec) == 0);
    printf("timer %d\n", spec.it_value.tv_sec > 900);
    timer_delete(timer);
}
