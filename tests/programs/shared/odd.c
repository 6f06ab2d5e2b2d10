// Instructions with operands that the opcode implies, blocks of processor state, and stack instructions, all on shared memory.
#include "../program.h"

static unsigned char *s;

static void state_blocks(void)
{
    char *block = (char *)s + 4096;
    double in = 1.25, out = 0;
    unsigned control = 0x1f80;
    asm volatile("ldmxcsr %0" : : "m"(control));
    asm volatile("movsd %0, %%xmm5\n\tfxsave64 (%1)\n\txorps %%xmm5, %%xmm5\n\tfxrstor64 (%1)\n\tmovsd %%xmm5, %2"
                 : : "m"(in), "r"(block), "m"(out) : "xmm5", "memory");
    printf("fxsave %g\n", out);
    // The x87 and SSE parts alone: what the others hold is the C library's business.
    asm volatile("movsd %0, %%xmm5\n\txsave64 (%1)\n\txorps %%xmm5, %%xmm5\n\txrstor64 (%1)\n\tmovsd %%xmm5, %2"
                 : : "m"(in), "r"(block + 1024), "m"(out), "a"(3), "d"(0) : "xmm5", "memory");
    printf("xsave %g, header %llx\n", out, (unsigned long long)((uint64_t *)(block + 1024))[64] & 3);
    *(uint32_t *)(s + 64) = 0x1fa0;
    asm volatile("ldmxcsr %0\n\tstmxcsr %1" : : "m"(s[64]), "m"(s[68]) : "memory");
    asm volatile("ldmxcsr %0" : : "m"(control));
    printf("mxcsr %x\n", *(unsigned *)(s + 68));
}

static void stacks(void)
{
    uint64_t *top = (uint64_t *)(s + 3 * 4096), saved, flags, a, b, c;
    asm volatile("movq %%rsp, %[saved]\n\tmovq %[top], %%rsp\n\t"
                 "pushq $-3\n\tpushq %[top]\n\tpushw $77\n\tpushw %%ax\n\tstc\n\tpushfq\n\tclc\n\tpopfq\n\tsetc %b[flags]\n\t"
                 "popw (%%rsp)\n\tpopw %w[a]\n\tpopq %[b]\n\tpushq (%%rsp)\n\tpopq 8(%%rsp)\n\t"
                 "movq %%rbp, %%rcx\n\tenter $64, $0\n\tmovq %%rsp, %%rdx\n\tleave\n\tcmpq %%rbp, %%rcx\n\tsete %b[c]\n\t"
                 "call 1f\n\tjmp 2f\n1:\taddq $1, %[b]\n\tlea 3f(%%rip), %%rcx\n\tcall *%%rcx\n\tret\n3:\tret $0\n2:\t"
                 "movq %[saved], %%rsp"
                 : [saved] "=&S"(saved), [flags] "=&r"(flags), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c)
                 : [top] "r"(top), "a"(5) : "rcx", "rdx", "cc", "memory");
    printf("%d %d %d %d %llx\n", (int)(flags & 1), (int)(a & 0xffff), (int)(b - (uint64_t)top), (int)(c & 1),
           (unsigned long long)mix(1, s + 2 * 4096 + 3000, 1096 - 64) >> 60);
}

int main(void)
{
    s = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 256; i++)
    {
        s[i] = (unsigned char)(i * 7 + 1);
    }
    unsigned long translated = 0xff05;
    asm volatile("xlatb" : "+a"(translated) : "b"(s) : "memory");
    printf("xlat %lx\n", translated);
    asm volatile("clflush %0\n\tprefetcht0 %0\n\tprefetchw %1" : : "m"(s[70]), "m"(s[170]) : "memory");
    uint64_t wide[2] = {0x1122334455667788, 0x99aabbccddeeff00};
    memcpy(s + 512, wide, 16);
    unsigned char equal;
    asm volatile("lock cmpxchg16b %1\n\tsete %0"
                 : "=q"(equal), "+m"(*(__int128 *)(s + 512)) : "a"(wide[0]), "d"(wide[1]), "b"(1L), "c"(2L) : "cc", "memory");
    printf("cmpxchg16b %d %d\n", equal, s[512] + s[520]);
    // The x87 unit's widest operands.
    long double ld = 3.5L;
    asm volatile("fldt %1\n\tfstpt %0\n\tfldt %0\n\tfbstp %2" : "=m"(*(long double *)(s + 600)) : "m"(ld), "m"(s[640]) : "memory");
    printf("x87 %Lg %02x\n", *(long double *)(s + 600), s[640]);
    state_blocks();
    stacks();
    // Strings between shared and private memory, and an element across the edge.
    char private[64] = "from private to shared memory and back";
    char *to = (char *)s + 700;
    asm volatile("cld\n\tmovq %0, %%rsi\n\tmovq %1, %%rdi\n\tmovl $38, %%ecx\n\trep movsb" : : "r"(private), "r"(to) : "rsi", "rdi", "rcx", "memory");
    unsigned long left = 38;
    char *from = private;
    asm volatile("repe cmpsb" : "+c"(left), "+S"(from), "+D"(to) : : "cc", "memory");
    printf("%.38s %lu\n", (char *)s + 700, left);
    char *base = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p = mmap(base + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    char *target = p - 12;
    unsigned long eights = 3;
    asm volatile("rep stosq" : "+c"(eights), "+D"(target) : "a"(0x0807060504030201) : "memory");
    uint64_t across;
    from = p - 4;
    asm volatile("lodsq" : "=a"(across), "+S"(from) : : "memory");
    printf("%llx\n", (unsigned long long)across);
    printf("%016llx\n", (unsigned long long)mix(mix(1, s, 4096), base, 8192));
}
