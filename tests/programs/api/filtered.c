// Under a filter that forbids what some containers forbid: system calls that look into processes, this one included.
#include "../api.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define FORBID(number)                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        FORBID(SYS_process_vm_readv),
        FORBID(SYS_process_vm_writev),
        FORBID(SYS_ptrace),
        FORBID(SYS_kcmp),
        FORBID(SYS_personality),
        FORBID(SYS_userfaultfd),
        FORBID(SYS_perf_event_open),
        FORBID(SYS_bpf),
        FORBID(SYS_mbind),
        FORBID(SYS_move_pages),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    const char *name = "?";
    works(undolr_shmem_log_filename_set("filtered.shmem"));
    works(undolr_shmem_log_filename_get(&name));
    must(strcmp(name, "filtered.shmem") == 0);
    fails(undolr_event_log_size_get((long *)8), EFAULT);
    works(undolr_start(NULL));
    works(undolr_save("filtered.undo"));
    works(undolr_stop(NULL));
    puts("recorded");
}
