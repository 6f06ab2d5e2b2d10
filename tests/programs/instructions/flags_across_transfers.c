// Flags set before a branch, a call or a return are still there after it.
//@ with: -mno-red-zone
#include "../program.h"

asm(".text\n"
    "callee_keeps_flags:\n"
    "  jmp 1f\n"
    "1: ret\n"
    "callee_sets_carry:\n"
    "  stc\n"
    "  ret\n"
    // rdi: flags to set; returns those found after many transfers
    "travel:\n"
    "  pushq %rdi\n"
    "  popfq\n"
    "  call callee_keeps_flags\n"
    "  jmp 2f\n"
    "2: leaq callee_keeps_flags(%rip), %rax\n"
    "  call *%rax\n"
    "  jz 3f\n"
    "3: jc 4f\n"
    "4: jo 5f\n"
    "5: js 6f\n"
    "6: leaq 7f(%rip), %rax\n"
    "  jmp *%rax\n"
    "7: movl $0, %ecx\n"
    "  jrcxz 8f\n"
    "  ud2\n"
    "8: pushfq\n"
    "  popq %rax\n"
    "  ret\n"
    "travel_sets:\n"
    "  clc\n"
    "  call callee_sets_carry\n"
    "  setc %al\n"
    "  movzbl %al, %eax\n"
    "  ret\n");
extern uint64_t travel(uint64_t flags), travel_sets(void);

int main(void)
{
    for (int bits = 0; bits < 64; bits++)
    {
        static const int places[] = {0, 2, 4, 6, 7, 11};
        uint64_t flags = 0x202;
        for (int i = 0; i < 6; i++)
        {
            flags |= (uint64_t)(bits >> i & 1) << places[i];
        }
        uint64_t found;
        asm volatile("call travel" : "=a"(found) : "D"(flags) : "rcx", "cc", "memory");
        printf("%03llx %03llx\n", (unsigned long long)flags, (unsigned long long)(found & 0x8d5));
    }
    printf("%d\n", (int)travel_sets());
}
