// All that wait can report: exited, killed, dumped, stopped, continued; waitid, WNOHANG, WNOWAIT, process groups, rusage.
#include "../program.h"
#include <sys/resource.h>

static void report(const char *what, siginfo_t *info, pid_t pid)
{
    printf("%s: signal %d code %d status %d pid %d\n", what, info->si_signo == SIGCHLD, info->si_code, info->si_status, info->si_pid == pid);
}

int main(void)
{
    pid_t child = flushed_fork();
    if (child == 0)
    {
        raise(SIGSTOP);
        raise(SIGTERM);
        _exit(1);
    }
    int status;
    must(waitpid(child, &status, WUNTRACED) == child);
    printf("stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    siginfo_t info;
    kill(child, SIGCONT);
    must(waitid(P_PID, (id_t)child, &info, WEXITED | WCONTINUED | WNOWAIT) == 0);
    printf("continued or killed %d\n", info.si_code == CLD_CONTINUED || info.si_code == CLD_KILLED);
    must(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    report("still there", &info, child);
    must(waitid(P_ALL, 0, &info, WEXITED) == 0);
    report("gone", &info, child);
    printf("%d %d\n", waitid(P_ALL, 0, &info, WEXITED), errno == ECHILD);
    int ends[2];
    must(pipe(ends) == 0);
    child = flushed_fork();
    if (child == 0)
    {
        char byte;
        must(read(ends[0], &byte, 1) == 1);
        abort();
    }
    printf("not yet %d\n", waitpid(child, &status, WNOHANG));
    must(write(ends[1], "x", 1) == 1);
    struct rusage usage;
    must(wait4(child, &status, 0, &usage) == child);
    print_status("aborted", status);
    child = flushed_fork();
    if (child == 0)
    {
        setpgid(0, 0);
        _exit(21);
    }
    setpgid(child, child);
    must(waitpid(-child, &status, 0) == child);
    print_status("group", status);
    printf("%d %d\n", waitpid(999999, &status, 0), errno == ECHILD);
}
