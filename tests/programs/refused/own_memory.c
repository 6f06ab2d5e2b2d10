// A program that changes its own memory, its code included, through /proc. Reading it there is nothing special.
//@ stops: writing to the memory of a process through /proc
#include "../program.h"

static volatile int value = 3;

__attribute__((noinline)) static int constant(void) { return 0x01020304; }

int main(void)
{
    int found = 0, memory = open("/proc/self/mem", O_RDONLY);
    must(memory >= 0 && pread(memory, &found, sizeof found, (off_t)&value) == sizeof found && close(memory) == 0);
    // Nor is another file in /proc.
    int name = open("/proc/self/comm", O_RDWR);
    must(name >= 0 && write(name, "renamed", 7) == 7 && close(name) == 0);
    printf("%d %d\n", found, constant());
    must(symlink("/proc/self/mem", "link") == 0);
    memory = open("link", O_RDWR);
    must(memory == 3 && remove("link") == 0);
    int other = 4;
    must(pwrite(memory, &other, sizeof other, (off_t)&value) == sizeof other);
    unsigned char *code = (unsigned char *)constant;
    while (memcmp(code, "\4\3\2\1", 4) != 0)
        code++;
    must(pwrite(memory, "\5", 1, (off_t)code) == 1);
    printf("%d %x\n", value, constant());
}
