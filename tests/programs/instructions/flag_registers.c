// pushf and popf, lahf and sahf, the direction flag over calls, enter and leave, push and pop of every form, xlat, xchg of the stack pointer.
//@ with: -mno-red-zone
#include "../program.h"

int main(void)
{
    uint64_t flags, after;
    for (int bits = 0; bits < 256; bits += 5)
    {
        asm volatile("movl %k2, %%eax\n\tshll $8, %%eax\n\tsahf\n\tpushfq\n\tpopq %0\n\tmovl $0, %%eax\n\tlahf\n\tmovzbl %%ah, %%eax\n\tmovq %%rax, %1"
                     : "=&r"(flags), "=&r"(after)
                     : "r"(bits)
                     : "rax", "cc", "memory");
        printf("%02x %03llx %02llx\n", bits, (unsigned long long)(flags & 0xd5), (unsigned long long)after);
    }
    // Flags that a program may change: AC stays on, ID toggles, IOPL and IF do not change.
    asm volatile("pushfq\n\tpopq %0\n\tmovq %0, %1\n\txorq $0x203000, %1\n\tpushq %1\n\tpopfq\n\tpushfq\n\tpopq %1\n\tpushq %0\n\tpopfq"
                 : "=&r"(flags), "=&r"(after)
                 :
                 : "cc", "memory");
    printf("changed %llx\n", (unsigned long long)((flags ^ after) & 0x247700));
    uint64_t value = 0x1234567890abcdef, popped, word = 0;
    asm volatile("subq $128, %%rsp\n\tpushq %2\n\tpopq %0\n\tpushw $0x4321\n\tpushw %w2\n\tpopw %w1\n\tpopw %w1\n\tpushq $-5\n\tpopq %1\n\taddq $128, %%rsp"
                 : "=&r"(popped), "+&r"(word)
                 : "r"(value)
                 : "memory");
    printf("%llx %lld\n", (unsigned long long)popped, (long long)word);
    asm volatile("subq $128, %%rsp\n\tmovq %%rsp, %%rcx\n\tpushq %%rsp\n\tpopq %0\n\tsubq %%rcx, %0\n\tpushq $7\n\tpushq $0\n\tpopq %%rdx\n\tpopq (%%rsp)\n\tmovq "
                 "(%%rsp), %1\n\taddq $128, %%rsp"
                 : "=&r"(popped), "=&r"(word)
                 :
                 : "rcx", "rdx", "memory");
    printf("push rsp %lld\n", (long long)popped);
    asm volatile("subq $128, %%rsp\n\tmovq %%rsp, %%rcx\n\tenter $32, $0\n\tmovq %%rcx, %0\n\tsubq %%rsp, %0\n\tleave\n\tsubq %%rsp, %%rcx\n\tmovq %%rcx, %1\n\taddq "
                 "$128, %%rsp"
                 : "=&r"(popped), "=&r"(word)
                 :
                 : "rcx", "memory");
    printf("enter %lld leave %lld\n", (long long)popped, (long long)word);
    static unsigned char table[256];
    for (int i = 0; i < 256; i++)
    {
        table[i] = (unsigned char)(255 - i);
    }
    uint64_t al = 0x12340a;
    asm volatile("xlatb" : "+a"(al) : "b"(table) : "memory");
    printf("xlat %llx\n", (unsigned long long)al);
    asm volatile("cwtl\n\tcltq\n\tcqto" : "+a"(al) : : "rdx", "cc");
    printf("sign %llx\n", (unsigned long long)al);
}
