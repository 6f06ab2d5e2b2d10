// vfork and exec, posix_spawn, system, popen, exec failures; children get the environment and descriptors that they would natively.
#include "../program.h"
#include <spawn.h>
extern char **environ;

int main(void)
{
    pid_t child = vfork();
    if (child == 0)
    {
        execl("/bin/sh", "sh", "-c", "echo from vfork $((6*7)); exit 4", NULL);
        _exit(127);
    }
    wait_for("vfork", child);
    char *argv[] = {"sh", "-c", "echo from spawn; ls /proc/self/fd | wc -l; exit 5", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "spawned", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(posix_spawn(&child, "/bin/sh", &actions, NULL, argv, environ) == 0);
    wait_for("spawn", child);
    fflush(stdout);
    printf("system %d\n", WEXITSTATUS(system("echo from system; exit 6")));
    FILE *pipe = popen("printf 'a\\nb\\nc\\n'; exit 7", "r");
    char line[20];
    int n = 0;
    while (fgets(line, sizeof line, pipe) != NULL)
    {
        printf("read %s", line);
        n++;
    }
    printf("popen %d %d\n", n, WEXITSTATUS(pclose(pipe)));
    fflush(stdout);
    pipe = popen("cat >popened", "w");
    fprintf(pipe, "written to a child\n");
    printf("popen %d\n", pclose(pipe));
    child = flushed_fork();
    if (child == 0)
    {
        execlp("no-such-program-here", "x", NULL);
        _exit(errno == ENOENT ? 8 : 9);
    }
    wait_for("exec of nothing", child);
    child = flushed_fork();
    if (child == 0)
    {
        execle("/usr/bin/env", "env", NULL, (char *[]){"ONLY=this", NULL});
    }
    wait_for("exec with environment", child);
}
