// Two processes contend with every locked instruction; the sums come out right.
//@ cc: -O0 -mcx16
//@ cc: -O2 -mcx16
#include "../program.h"
#include <sched.h>

struct shared
{
    uint64_t added, exchanged, compared, bits, incremented, negative;
    _Alignas(16) unsigned __int128 wide;
    uint32_t lock;
    uint64_t under_lock[2];
    char pad[61];
    uint64_t across_lines;
    uint8_t byte;
    uint16_t word;
};
enum { rounds = 2000 };
static volatile struct shared *s;

static uint64_t work(uint64_t me)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < rounds; i++)
    {
        __atomic_fetch_add(&s->added, i, __ATOMIC_SEQ_CST);
        sum += __atomic_exchange_n(&s->exchanged, me * rounds + i, __ATOMIC_SEQ_CST);
        uint64_t seen = s->compared;
        while (!__atomic_compare_exchange_n(&s->compared, &seen, seen + 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        {
        }
        asm volatile("lock btcq $5, %0\n\tlock xorq %1, %0" : "+m"(s->bits) : "r"(i) : "cc");
        asm volatile("lock incq %0" : "+m"(s->incremented) : : "cc");
        asm volatile("lock subq %1, %0" : "+m"(s->negative) : "er"(3l) : "cc");
        asm volatile("lock incb %0\n\tlock addw $3, %1" : "+m"(s->byte), "+m"(s->word) : : "cc");
        uint64_t low = 0, high = 0;
        unsigned char done;
        do
        {
            asm volatile("movq %4, %%rbx\n\taddq $1, %%rbx\n\tmovq %5, %%rcx\n\taddq $10, %%rcx\n\tlock cmpxchg16b %0\n\tsetz %3"
                         : "+m"(s->wide), "+a"(low), "+d"(high), "=&q"(done)
                         : "r"(low), "r"(high)
                         : "rbx", "rcx", "cc");
        } while (!done);
        while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE) != 0)
        {
            sched_yield();
        }
        s->under_lock[0]++;
        s->under_lock[1] += 5;
        __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
        __atomic_fetch_add((uint64_t *)((uintptr_t)&s->across_lines - 3), 1, __ATOMIC_SEQ_CST);
    }
    return sum;
}

int main(void)
{
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = flushed_fork();
    work(child == 0);
    if (child == 0)
    {
        _exit(0);
    }
    wait_for("child", child);
    unsigned __int128 wide = s->wide;
    uint64_t across = *(uint64_t *)((uintptr_t)&s->across_lines - 3);
    printf("%llu %llu %llx %llu %lld %d %d\n", (unsigned long long)s->added, (unsigned long long)s->compared, (unsigned long long)s->bits,
           (unsigned long long)s->incremented, (long long)s->negative, s->byte, s->word);
    printf("%llu %llu %llu %llu %llu\n", (unsigned long long)wide, (unsigned long long)(wide >> 64), (unsigned long long)s->under_lock[0],
           (unsigned long long)s->under_lock[1], (unsigned long long)across);
}
