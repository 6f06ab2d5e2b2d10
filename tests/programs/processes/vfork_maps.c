// A vforked child that maps, unmaps and protects memory: natively it is its parent's memory.
//@ stops: a vforked child that changes its parent's address space
#include "../program.h"
#include <setjmp.h>

static char *volatile mapped, *volatile filled, *volatile heap, *volatile file, *volatile given, *volatile closed;
static volatile int fd;
static sigjmp_buf back;

static void on_fault(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static void child_part(void)
{
    mapped = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(mapped + 4096, "by the child");
    file = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    file[1] = '!';
    filled = malloc(300000);
    memset(filled, 'm', 300000);
    heap = sbrk(1 << 20);
    memset(heap, 'h', 1 << 20);
    munmap(given, 4096);
    mprotect(closed, 4096, PROT_READ);
}

int main(void)
{
    signal(SIGSEGV, on_fault);
    fd = open("file", O_RDWR | O_CREAT, 0600);
    must(fd >= 0 && ftruncate(fd, 8192) == 0 && pwrite(fd, "in the file", 11, 0) == 11 && pwrite(fd, "more", 4, 4096) == 4);
    given = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    closed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t child = vfork();
    if (child == 0)
    {
        child_part();
        _exit(3);
    }
    int status;
    must(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    printf("%s %.11s %s %c %c %d\n", mapped + 4096, file, file + 4096, filled[299999], heap[(1 << 20) - 1], sbrk(0) == heap + (1 << 20));
    given[4096] = 5;
    if (sigsetjmp(back, 1) == 0)
        given[0] = 1, puts("still there");
    if (sigsetjmp(back, 1) == 0)
        closed[0] = 1, puts("still writable");
    printf("%d %d\n", given[4096], closed[0]);
    free(filled);
    must(remove("file") == 0);
}
