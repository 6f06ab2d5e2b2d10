// A child writes pairs under a sequence lock, the parent spins on it without system calls and never sees a torn pair.
#include "../program.h"

struct shared
{
    volatile uint32_t sequence, stop;
    volatile uint64_t value, complement;
};

int main(void)
{
    struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s->complement = ~0ull;
    pid_t child = flushed_fork();
    if (child == 0)
    {
        for (uint64_t i = 0; !s->stop; i++)
        {
            s->sequence++;
            __atomic_thread_fence(__ATOMIC_RELEASE);
            s->value = i;
            s->complement = ~i;
            __atomic_thread_fence(__ATOMIC_RELEASE);
            s->sequence++;
        }
        _exit(0);
    }
    int torn = 0, changes = 0;
    uint64_t newest = 0;
    // Few: on a busy machine each takes a time slice, in which both log all that they spin.
    while (changes < 8)
    {
        uint32_t before;
        while ((before = __atomic_load_n(&s->sequence, __ATOMIC_ACQUIRE)) & 1)
        {
            __builtin_ia32_pause();
        }
        uint64_t value = s->value, complement = s->complement;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (s->sequence == before)
        {
            torn += complement != ~value || value < newest;
            changes += value != newest;
            newest = value;
        }
    }
    s->stop = 1;
    wait_for("child", child);
    printf("torn %d\n", torn);
}
