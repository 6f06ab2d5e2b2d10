// Code written at run time: into a page with all rights, called, rewritten, called again; written and then made executable; patched in place.
#include "../program.h"

typedef int (*function)(int);

// mov eax, imm32; add eax, edi; ret
static void emit(unsigned char *at, int value)
{
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    memcpy(at + 5, "\x01\xf8\xc3", 3);
}

int main(void)
{
    unsigned char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(code != MAP_FAILED);
    int sum = 0;
    for (int i = 0; i < 50; i++)
    {
        emit(code, i * 1000);
        sum += ((function)code)(i);
    }
    printf("rewritten %d\n", sum);
    for (int i = 0; i < 100; i++)
    {
        code[1] = (unsigned char)i; // only the operand
        sum += ((function)code)(1);
    }
    printf("patched %d\n", sum);
    emit(code + 4090, 77); // across two pages
    printf("across %d\n", ((function)(code + 4090))(3));
    code[4096] = 0xf0; // add eax, esi
    printf("second page %d\n", ((int (*)(int, int))(code + 4090))(3, 500));

    unsigned char *strict = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 20; i++)
    {
        must(mprotect(strict, 4096, PROT_READ | PROT_WRITE) == 0);
        emit(strict + i * 8 % 64, i);
        must(mprotect(strict, 4096, PROT_READ | PROT_EXEC) == 0);
        sum += ((function)(strict + i * 8 % 64))(1);
    }
    printf("strict %d\n", sum);

    // A function that changes its own next instructions: mov byte [rip+1], 42; (mov eax, imm8..); ret
    static const unsigned char own[] = {0xc6, 0x05, 0x01, 0, 0, 0, 42, 0xb8, 7, 0, 0, 0, 0xc3};
    memcpy(code, own, sizeof own);
    printf("own %d\n", ((function)code)(0));
    memcpy(code, own, sizeof own);
    printf("own again %d\n", ((function)code)(0));
    char *data = (char *)code + 200; // data beside the code
    for (int i = 0; i < 1000; i++)
    {
        data[i % 100]++;
        sum += ((function)code)(0);
    }
    printf("beside %d %d\n", sum, data[5]);
}
