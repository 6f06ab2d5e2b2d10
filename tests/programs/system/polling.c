// poll, select, epoll, eventfd, timerfd, signalfd, inotify on pipes that fill and empty.
#include "../program.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

int main(void)
{
    int ends[2];
    must(pipe2(ends, O_NONBLOCK) == 0);
    char block[4096] = {0};
    struct pollfd set[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
    int ready = poll(set, 2, 0);
    printf("%d %d %d\n", ready, set[0].revents, set[1].revents);
    int blocks = 0;
    while (write(ends[1], block, sizeof block) == sizeof block)
    {
        blocks++;
    }
    printf("%d %s\n", blocks, strerror(errno));
    ready = poll(set, 2, -1);
    printf("%d %d %d\n", ready, set[0].revents, set[1].revents);
    fd_set reads, writes;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_SET(ends[0], &reads);
    FD_SET(ends[1], &writes);
    struct timeval none = {0, 0};
    ready = select(ends[1] + 1, &reads, &writes, NULL, &none);
    printf("%d %d %d\n", ready, FD_ISSET(ends[0], &reads) != 0, FD_ISSET(ends[1], &writes) != 0);
    int epoll = epoll_create1(0), event = eventfd(3, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    must(epoll >= 0 && event >= 0 && timer >= 0);
    for (int i = 0; i < 3; i++)
    {
        int fd = i == 0 ? ends[0] : i == 1 ? event : timer;
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){EPOLLIN, {.u32 = (uint32_t)i}}) == 0);
    }
    struct epoll_event events[8];
    int n = epoll_wait(epoll, events, 8, 100), seen = 0;
    for (int i = 0; i < n; i++)
    {
        seen |= 1 << events[i].data.u32;
    }
    printf("%d %d\n", n, seen);
    uint64_t count = 0;
    must(write(event, &(uint64_t){39}, 8) == 8 && read(event, &count, 8) == 8);
    ssize_t empty = read(event, &count, 8);
    printf("%llu %zd %s\n", (unsigned long long)count, empty, strerror(errno));
    must(epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL) == 0);
    must(timerfd_settime(timer, 0, &(struct itimerspec){{0, 0}, {0, 2000000}}, NULL) == 0);
    n = epoll_wait(epoll, events, 8, -1);
    must(read(timer, &count, 8) == 8);
    printf("%d %u %llu\n", n, events[0].data.u32, (unsigned long long)count);
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    int signals = signalfd(-1, &usr1, SFD_NONBLOCK);
    struct signalfd_siginfo info;
    raise(SIGUSR1);
    ssize_t got = read(signals, &info, sizeof info);
    printf("%zd %u\n", got, got > 0 ? info.ssi_signo : 0);
    int watch = inotify_init1(IN_NONBLOCK);
    must(inotify_add_watch(watch, ".", IN_CREATE) >= 0);
    close(creat("new-file", 0600));
    got = read(watch, block, sizeof block);
    printf("%d %s\n", got > 0, ((struct inotify_event *)block)->name);
}
