// posix_spawn of a program that is not there says so to its caller.
#include "../program.h"
#include <spawn.h>
extern char **environ;

int main(void)
{
    pid_t child;
    char *argv[] = {"x", NULL};
    printf("%s\n", strerror(posix_spawn(&child, "/no/such/program", NULL, NULL, argv, environ)));
    printf("%s\n", strerror(posix_spawnp(&child, "no-such-program", NULL, NULL, argv, environ)));
}
