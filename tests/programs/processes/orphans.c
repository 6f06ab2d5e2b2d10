// Who collects orphans sees the program's own processes only.
#include "../program.h"
#include <sys/prctl.h>

int main(void)
{
    must(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (int i = 0; i < 5; i++)
    {
        pid_t child = flushed_fork();
        if (child == 0)
        {
            pid_t orphan = fork();
            if (orphan == 0)
            {
                must(getppid() > 0);
                _exit(4);
            }
            _exit(3);
        }
        wait_for("child", child);
        int status;
        must(wait(&status) > 0);
        print_status("orphan", status);
    }
    must(wait(NULL) == -1 && errno == ECHILD);
}
