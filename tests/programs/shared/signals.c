// Everything that is about signals lies in shared memory: arguments, results, the stack of the handlers and with it their frames.
#include "../program.h"
#include <ucontext.h>

struct action
{
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

struct area
{
    struct action first, second;
    unsigned long mask, old_mask;
    stack_t stack, old_stack;
    int seen[4];
    char other_stack[1 << 16];
};

static struct area *area;

static void count(int signal) { area->seen[0]++; }

static void look(int signal, siginfo_t *info, void *context)
{
    volatile char here = 1;
    area->seen[1] = (char *)&here > area->other_stack && (char *)&here < area->other_stack + sizeof area->other_stack;
    area->seen[2] += info->si_value.sival_int;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX] += 5;
}

int main(void)
{
    area = mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(area != MAP_FAILED);
    struct sigaction action = {.sa_handler = count};
    must(sigaction(SIGUSR1, &action, NULL) == 0);
    must(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &area->first, 8) == 0);
    printf("%d\n", area->first.handler == (void *)count);
    must(syscall(SYS_rt_sigaction, SIGUSR2, &area->first, &area->second, 8) == 0);
    must(raise(SIGUSR2) == 0 && area->seen[0] == 1);

    area->mask = 1 << (SIGUSR1 - 1);
    must(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &area->mask, &area->old_mask, 8) == 0);
    must(raise(SIGUSR1) == 0 && area->seen[0] == 1);
    must(syscall(SYS_rt_sigpending, &area->old_mask, 8) == 0);
    printf("pending %lx\n", area->old_mask);
    must(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &area->mask, NULL, 8) == 0 && area->seen[0] == 2);

    area->stack = (stack_t){.ss_sp = area->other_stack, .ss_size = sizeof area->other_stack};
    must(sigaltstack(&area->stack, &area->old_stack) == 0);
    struct sigaction on_stack = {.sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    must(sigaction(SIGRTMIN, &on_stack, NULL) == 0);
    for (int i = 1; i <= 20; i++)
    {
        must(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
    }
    register double kept = area->seen[2];
    long value = 1, number = SYS_kill;
    // clang-format off
    __asm__ volatile("mov %3, %%rbx; syscall; mov %%rbx, %1"
                     : "+a"(number), "=r"(value) : "D"((long)getpid()), "r"(value), "S"((long)SIGRTMIN) : "rbx", "rcx", "r11", "memory");
    // clang-format on
    printf("%d %d %g %ld %d\n", area->seen[1], area->seen[2], kept, value, area->old_stack.ss_flags);
}
