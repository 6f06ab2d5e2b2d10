// Descriptor numbers are those of a native run; closing all of them, one by one or at once, harms nobody.
#include "../program.h"
#include <dirent.h>
#include <sys/resource.h>

static void list(const char *when)
{
    printf("%s:", when);
    DIR *directory = opendir("/proc/self/fd");
    must(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory))
    {
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
        {
            printf(" %s", entry->d_name);
        }
    }
    closedir(directory);
    printf("\n");
}

int main(void)
{
    list("at start");
    int first = open("/dev/null", O_RDONLY);
    int ends[2];
    must(pipe(ends) == 0);
    int copy = dup(first);
    printf("%d %d %d %d %d\n", first, ends[0], ends[1], copy, fcntl(first, F_DUPFD, 100));
    close(first);
    printf("%d %d\n", open("/dev/zero", O_RDONLY), dup2(copy, 500));
    list("later");
    printf("%d\n", close_range(3, ~0u, 0));
    list("after close_range");
    printf("%d\n", open("/dev/null", O_RDONLY));
    struct rlimit limit;
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
    {
        close(fd);
    }
    list("after the loop");
    limit.rlim_cur = 10;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int n = 0, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
    {
        n += fd;
    }
    printf("%d %s\n", n, strerror(errno));
    for (fd = 3; fd < 10; fd++)
    {
        close(fd);
    }
    // Even standard error may go.
    must(close(0) == 0 && close(2) == 0);
    printf("%d\n", open("/dev/null", O_RDONLY));
}
