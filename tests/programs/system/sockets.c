// Unix and internet sockets with a child as the server: streams, datagrams, messages with descriptors, options, addresses.
#include "../program.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

static void serve(int listener, int rounds)
{
    for (int i = 0; i < rounds; i++)
    {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        int fd = accept(listener, (struct sockaddr *)&peer, &length);
        must(fd >= 0);
        char buffer[100];
        ssize_t n;
        while ((n = read(fd, buffer, sizeof buffer)) > 0)
        {
            for (int k = 0; k < n; k++)
            {
                buffer[k] ^= 0x20;
            }
            must(send(fd, buffer, (size_t)n, MSG_NOSIGNAL) == n);
        }
        close(fd);
    }
    _exit(0);
}

static void ask(int fd)
{
    char answer[100] = "";
    must(send(fd, "Hello, Server", 13, 0) == 13);
    must(recv(fd, answer, 13, MSG_WAITALL) == 13);
    printf("%s\n", answer);
    must(shutdown(fd, SHUT_WR) == 0);
    printf("%zd\n", recv(fd, answer, 1, 0));
    close(fd);
}

int main(void)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&path, sizeof path) == 0 && listen(listener, 5) == 0);
    pid_t child = flushed_fork();
    if (child == 0)
    {
        serve(listener, 2);
    }
    for (int i = 0; i < 2; i++)
    {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(connect(fd, (struct sockaddr *)&path, sizeof path) == 0);
        struct ucred peer;
        socklen_t length = sizeof peer;
        must(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0);
        printf("%d\n", peer.uid == getuid());
        ask(fd);
    }
    wait_for("server", child);
    close(listener);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 5) == 0);
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    child = flushed_fork();
    if (child == 0)
    {
        serve(listener, 1);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
    ask(fd);
    wait_for("server", child);
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    char control[CMSG_SPACE(sizeof(int))] = {0}, text[16] = "with descriptor";
    struct iovec part = {text, 15};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
    must(sendmsg(pair[0], &message, 0) == 15);
    memset(control, 0, sizeof control);
    memset(text, 0, sizeof text);
    must(recvmsg(pair[1], &message, 0) == 15);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    printf("%s %d\n", text, fd > pair[1]);
    must(sendto(fd, "x", 1, 0, NULL, 0) == 1 && recvfrom(pair[1], text, 16, MSG_PEEK, NULL, NULL) == 1);
    must(recv(pair[1], text, 16, MSG_DONTWAIT) == 1);
    ssize_t none = recv(pair[1], text, 16, MSG_DONTWAIT);
    printf("%zd %s\n", none, strerror(errno));
}
