// Process and user numbers, sessions, priorities, names: consistent with each other.
#include "../program.h"
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>

int main(void)
{
    pid_t me = getpid();
    printf("%d %d %d\n", me == (pid_t)syscall(SYS_gettid), getppid() > 0, getpgrp() == getpgid(0));
    printf("%d %d %d %d\n", getuid(), geteuid(), getgid(), getegid());
    char proc[64], line[64];
    snprintf(proc, sizeof proc, "/proc/%d/stat", me);
    FILE *stat = fopen(proc, "r");
    int pid;
    char name[32];
    must(fscanf(stat, "%d (%31[^)]", &pid, name) == 2);
    printf("%d %s\n", pid == me, name);
    prctl(PR_SET_NAME, "renamed");
    prctl(PR_GET_NAME, line);
    printf("%s %d\n", line, prctl(PR_GET_DUMPABLE));
    pid_t child = flushed_fork();
    if (child == 0)
    {
        printf("child: parent %d new %d\n", getppid() == me, getpid() != me);
        exit(0);
    }
    wait_for("child", child);
    struct rlimit limit;
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    printf("nofile %llu nice %d umask %o\n", (unsigned long long)limit.rlim_cur, getpriority(PRIO_PROCESS, 0), umask(022));
    struct utsname host;
    must(uname(&host) == 0);
    printf("%s %s %ld %ld\n", host.sysname, host.machine, sysconf(_SC_PAGESIZE), sysconf(_SC_NPROCESSORS_ONLN));
    printf("%d %d\n", setpgid(0, 0), getpgrp() == me);
    printf("%d\n", setsid() == -1);
    gid_t groups[64];
    printf("groups %d\n", getgroups(64, groups) >= 0);
    must(setuid(getuid()) == 0 && setgid(getgid()) == 0);
}
