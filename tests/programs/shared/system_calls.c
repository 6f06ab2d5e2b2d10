// The kernel reads and writes shared memory for the program: read, write, vectors, messages, futexes, structures, strings, poll.
#include "../program.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

int main(void)
{
    char *s = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *ends = (int *)s;
    must(pipe(ends) == 0);
    strcpy(s + 100, "a line from shared memory\n");
    must(write(ends[1], s + 100, 26) == 26);
    must(read(ends[0], s + 4090, 26) == 26); // across two pages
    must(write(1, s + 4090, 26) == 26);
    strcpy(s + 200, "name-in-shared-memory");
    int fd = open(s + 200, O_RDWR | O_CREAT, 0644);
    printf("%d %d\n", fd, ends[0]);
    struct iovec *parts = (struct iovec *)(s + 512);
    char own[32] = "own part, ";
    parts[0] = (struct iovec){own, 10};
    parts[1] = (struct iovec){s + 100, 6};
    parts[2] = (struct iovec){s + 4090, 10};
    printf("%zd\n", writev(fd, parts, 3));
    lseek(fd, 0, SEEK_SET);
    parts[0].iov_base = s + 8000;
    parts[1].iov_base = own;
    parts[2] = (struct iovec){s + 8190, 20};
    ssize_t got = readv(fd, parts, 3);
    printf("%zd %.10s %.6s %.10s\n", got, s + 8000, own, s + 8190);
    struct stat *info = (struct stat *)(s + 1024);
    must(fstat(fd, info) == 0);
    printf("%ld %o\n", (long)info->st_size, info->st_mode);
    int *pair = (int *)(s + 2048);
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    struct msghdr *message = (struct msghdr *)(s + 2100);
    *message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 3};
    printf("%zd\n", sendmsg(pair[0], message, 0));
    memset(s + 8000, 0, 300);
    got = recvmsg(pair[1], message, 0);
    printf("%zd %.10s\n", got, s + 8000);
    struct pollfd *set = (struct pollfd *)(s + 3000);
    set[0] = (struct pollfd){.fd = pair[1], .events = POLLIN | POLLOUT};
    int ready = poll(set, 1, 0);
    printf("%d %x\n", ready, set[0].revents);
    struct timespec *when = (struct timespec *)(s + 3100);
    must(clock_gettime(CLOCK_MONOTONIC, when) == 0);
    printf("%d\n", when->tv_sec > 0);
    must(getcwd(s + 12000, 4000) != NULL && access(s + 12000, R_OK) == 0);
    printf("%d\n", s[12000] == '/');
    volatile uint32_t *word = (uint32_t *)(s + 3200);
    pid_t child = flushed_fork();
    if (child == 0)
    {
        while (*word == 0)
        {
            syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
        }
        *word = 2;
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
        _exit(0);
    }
    *word = 1;
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (*word == 1)
    {
        syscall(SYS_futex, word, FUTEX_WAIT, 1, NULL, NULL, 0);
    }
    wait_for("child", child);
    int *status = (int *)(s + 3300);
    child = flushed_fork();
    if (child == 0)
    {
        _exit(9);
    }
    must(waitpid(child, status, 0) == child);
    printf("%u %d\n", *word, WEXITSTATUS(*status));
    void *volatile nowhere = (void *)16;
    ssize_t failed = pread(fd, nowhere, 4, 0);
    printf("%zd %s\n", failed, strerror(errno));
}
