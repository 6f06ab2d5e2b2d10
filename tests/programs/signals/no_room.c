// A handler without memory for its frame: the kernel sends SIGSEGV instead, which may have a handler on another stack.
//@ ends: signal 11
#include "../program.h"

static void never(int signal) { _exit(98); }

static void handle(int signal, siginfo_t *info, void *context) { _exit(info->si_code == SI_KERNEL ? 3 : 97); }

static void signal_without_stack(void)
{
    long pid = getpid(), number = SYS_kill;
    // clang-format off
    __asm__ volatile("mov %%rsp, %%rbx; mov $0x1000, %%esp; syscall; mov %%rbx, %%rsp"
                     : "+a"(number) : "D"(pid), "S"((long)SIGUSR1) : "rbx", "rcx", "r11", "memory");
    // clang-format on
}

int main(void)
{
    static char other_stack[1 << 16];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction usr1 = {.sa_handler = never}, segv = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    must(sigaction(SIGUSR1, &usr1, NULL) == 0 && sigaltstack(&stack, NULL) == 0);
    pid_t child = flushed_fork();
    if (child == 0)
    {
        must(sigaction(SIGSEGV, &segv, NULL) == 0);
        signal_without_stack();
        _exit(96);
    }
    wait_for("with a handler of SIGSEGV", child);
    fflush(stdout);
    signal_without_stack();
}
