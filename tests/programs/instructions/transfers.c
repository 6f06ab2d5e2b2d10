// Switches by jump table, computed goto, function pointers, tail calls, deep recursion, ret with a number, returns to changed addresses.
//@ cc: -O0
//@ cc: -O2
//@ cc: -O3 -march=native
//@ cc: -O2 -fcf-protection=full
//@ cc: -O2 -fno-pie -no-pie
#include "../program.h"

static __attribute__((noinline)) uint64_t by_table(unsigned op, uint64_t a)
{
    switch (op)
    {
    case 0: return a + 1;
    case 1: return a * 3;
    case 2: return a ^ 0x55;
    case 3: return a << 3;
    case 4: return a >> 2;
    case 5: return ~a;
    case 6: return a - 77;
    case 7: return a * a;
    case 8: return a | 0x1000;
    case 9: return a % 1000003;
    default: return a / 7;
    }
}

static __attribute__((noinline)) uint64_t by_goto(const unsigned char *program, uint64_t a)
{
    static void *const labels[] = {&&add, &&multiply, &&shift, &&flip, &&end};
    goto *labels[*program++];
add:
    a += 12345;
    goto *labels[*program++];
multiply:
    a *= 1103515245;
    goto *labels[*program++];
shift:
    a ^= a >> 11;
    goto *labels[*program++];
flip:
    a = ~a;
    goto *labels[*program++];
end:
    return a;
}

static __attribute__((noinline)) uint64_t deep(unsigned depth, uint64_t a) { return depth == 0 ? a : deep(depth - 1, a * 3 + depth) + depth; }

static uint64_t odd(uint64_t n, uint64_t a);
static __attribute__((noinline)) uint64_t even(uint64_t n, uint64_t a) { return n == 0 ? a : odd(n - 1, a + 2); }
static __attribute__((noinline)) uint64_t odd(uint64_t n, uint64_t a) { return n == 0 ? ~a : even(n - 1, a * 5); }

static uint64_t f0(uint64_t a) { return a + 3; }
static uint64_t f1(uint64_t a) { return a * 9; }
static uint64_t f2(uint64_t a) { return a ^ a >> 7; }
static uint64_t (*volatile const table[])(uint64_t) = {f0, f1, f2, f1};

asm(".text\n"
    "pops_two:\n"
    "  movq 8(%rsp), %rax\n"
    "  addq 16(%rsp), %rax\n"
    "  ret $16\n"
    "calls_pops_two:\n"
    "  movq %rsp, %rdx\n"
    "  pushq %rdi\n"
    "  pushq %rsi\n"
    "  call pops_two\n"
    "  subq %rsp, %rdx\n"
    "  leaq (%rax,%rdx,8), %rax\n"
    "  ret\n"
    "returns_elsewhere:\n" // push + ret as a jump, and a callee that changes where it returns to
    "  leaq 1f(%rip), %rax\n"
    "  pushq %rax\n"
    "  ret\n"
    "  ud2\n"
    "1: call 2f\n"
    "  ud2\n"
    "3: movl $4711, %eax\n"
    "  ret\n"
    "2: leaq 3b(%rip), %rax\n"
    "  movq %rax, (%rsp)\n"
    "  ret\n"
    "get_pc:\n" // call to the next instruction
    "  call 1f\n"
    "1: popq %rax\n"
    "  leaq 1b(%rip), %rdx\n"
    "  subq %rdx, %rax\n"
    "  ret\n"
    "through_memory:\n"
    "  leaq 1f(%rip), %rax\n"
    "  movq %rax, -16(%rsp)\n"
    "  jmp *-16(%rsp)\n"
    "  ud2\n"
    "1: leaq 2f(%rip), %rax\n"
    "  pushq %rax\n"
    "  call *(%rsp)\n"
    "  popq %rdx\n"
    "  ret\n"
    "2: movl $815, %eax\n"
    "  ret\n");
uint64_t calls_pops_two(uint64_t, uint64_t), returns_elsewhere(void), get_pc(void), through_memory(void);

int main(void)
{
    uint64_t a = 1;
    unsigned char program[4001];
    for (int i = 0; i < 4000; i++)
    {
        program[i] = (unsigned char)((i * 7 + i / 13) % 4);
        a = by_table((unsigned)(i * 5 + i / 11) % 12, a);
        a = table[i * 3 / 2 % 4](a);
    }
    program[4000] = 4;
    printf("%llu\n", (unsigned long long)a);
    printf("%llu\n", (unsigned long long)by_goto(program, a));
    printf("%llu\n", (unsigned long long)deep(20000, 1));
    printf("%llu\n", (unsigned long long)even(3001, 1));
    printf("%llu %llu %llu %llu\n", (unsigned long long)calls_pops_two(11, 31), (unsigned long long)returns_elsewhere(), (unsigned long long)get_pc(),
           (unsigned long long)through_memory());
}
