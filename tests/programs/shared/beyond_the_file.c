// SIGBUS for accesses to a shared mapping beyond the end of its file, which grows later.
#include "../program.h"
#include <setjmp.h>

static sigjmp_buf out;
static char *file;

static void on_bus(int signal, siginfo_t *info, void *context)
{
    (void)context;
    printf("signal %d code %d offset %ld\n", signal, info->si_code, (long)((char *)info->si_addr - file));
    siglongjmp(out, 1);
}

int main(void)
{
    int fd = open("short", O_RDWR | O_CREAT, 0600);
    must(ftruncate(fd, 100) == 0);
    file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGBUS, &action, NULL) == 0);
    if (sigsetjmp(out, 1) == 0)
        file[5000] = 'z';
    if (sigsetjmp(out, 1) == 0)
        printf("%d\n", file[5001]);
    must(ftruncate(fd, 8192) == 0);
    file[5000] = 'z';
    printf("%c %d\n", file[5000], file[5001]);
}
