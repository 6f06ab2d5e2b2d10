// Other code at the same address: unmapped and mapped again, mapped over, moved by mremap, loaded from a file that changes.
#include "../program.h"

typedef int (*function)(void);

static void emit(unsigned char *at, int value)
{
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

int main(void)
{
    enum { all = PROT_READ | PROT_WRITE | PROT_EXEC, private = MAP_PRIVATE | MAP_ANONYMOUS };
    unsigned char *code = mmap(NULL, 4096, all, private, -1, 0);
    for (int i = 0; i < 10; i++)
    {
        emit(code, i);
        printf("%d ", ((function)code)());
        must(munmap(code, 4096) == 0);
        must(mmap(code, 4096, all, private | MAP_FIXED, -1, 0) == code);
    }
    for (int i = 10; i < 20; i++)
    {
        must(mmap(code, 4096, all, private | MAP_FIXED, -1, 0) == code);
        emit(code, i);
        printf("%d ", ((function)code)());
    }
    unsigned char *other = mmap(NULL, 4096, all, private, -1, 0);
    emit(other, 4711);
    printf("%d ", ((function)other)());
    must(mremap(other, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, code) == code);
    printf("%d\n", ((function)code)());
    for (int i = 0; i < 5; i++)
    {
        unsigned char bytes[6];
        emit(bytes, 100 + i);
        int fd = open("code", O_RDWR | O_CREAT | O_TRUNC, 0700);
        must(write(fd, bytes, 6) == 6);
        unsigned char *file = mmap(code, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
        must(file == code);
        close(fd);
        printf("%d ", ((function)code)());
    }
    must(munmap(code, 4096) == 0);
    code = mmap(code, 4096, all, private | MAP_FIXED, -1, 0);
    emit(code, 5);
    // Code that is read into place by the kernel.
    int fd = open("code", O_RDWR);
    must(((function)code)() == 5 && pread(fd, code, 6, 0) == 6);
    printf("%d\n", ((function)code)());
}
