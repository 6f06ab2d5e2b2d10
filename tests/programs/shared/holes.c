// Pages of shared objects become zero: holes are punched, files cut and grown again, through a descriptor and by name.
#include "../program.h"

enum
{
    PAGE = 4096,
    PAGES = 8
};

static unsigned long long sum(const char *bytes, size_t length) { return mix(3, bytes, length); }

static void fill(char *view)
{
    for (int i = 0; i < PAGES * PAGE; i++)
        view[i] = i / 61 + 1;
}

static void in_child(char *view, int at)
{
    pid_t child = flushed_fork();
    if (child == 0)
    {
        printf("child %d %llx\n", view[at], sum(view, PAGES * PAGE));
        view[at] += 5;
        fflush(stdout);
        _exit(0);
    }
    wait_for("child", child);
    printf("%d\n", view[at]);
}

static void change(const char *name, int fd, char *view, char *second)
{
    fill(view);
    printf("%s %llx %llx\n", name, sum(view, PAGES * PAGE), sum(second, 4 * PAGE));
    must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE + 100, 3 * PAGE) == 0);
    printf("%d %d %d %llx %llx\n", view[PAGE + 99], view[PAGE + 100], view[4 * PAGE + 99], sum(view, PAGES * PAGE), sum(second, 4 * PAGE));
    in_child(view, 2 * PAGE);
    fill(view);
    must(ftruncate(fd, 3 * PAGE + 50) == 0);
    printf("%d %d %llx\n", view[3 * PAGE + 49], view[3 * PAGE + 50], sum(view, 4 * PAGE));
    must(ftruncate(fd, PAGES * PAGE) == 0);
    printf("%d %llx %llx\n", view[5 * PAGE], sum(view, PAGES * PAGE), sum(second, 4 * PAGE));
    in_child(view, 6 * PAGE);
    fill(view);
    // What fails frees nothing.
    must(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, PAGE) == -1);
    must(ftruncate(fd, -1) == -1);
    printf("%llx\n", sum(view, PAGES * PAGE));
}

int main(void)
{
    int fds[] = {memfd_create("object", 0), open("file", O_RDWR | O_CREAT, 0600)};
    for (int i = 0; i < 2; i++)
    {
        must(fds[i] >= 0 && ftruncate(fds[i], PAGES * PAGE) == 0);
        char *view = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        char *second = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fds[i], 2 * PAGE);
        must(view != MAP_FAILED && second != MAP_FAILED);
        change(i == 0 ? "memory" : "file", fds[i], view, second);
        if (i == 1)
        {
            must(truncate("file", PAGE) == 0 && truncate("file", PAGES * PAGE) == 0);
            printf("%d %d %llx\n", view[PAGE - 1], view[PAGE], sum(view, PAGES * PAGE));
        }
    }
}
