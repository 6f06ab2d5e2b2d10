// MADV_DONTNEED: anonymous memory is zero again, a private mapping of a file has the file's contents again.
#include "../program.h"

static uint64_t sum(const char *bytes, size_t length) { return mix(5, bytes, length); }

int main(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    char page[4096];
    for (int i = 0; i < 4; i++)
    {
        memset(page, 'a' + i, sizeof page);
        must(write(fd, page, sizeof page) == sizeof page);
    }
    must(write(fd, "tail", 4) == 4);
    char *file = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *memory = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(file, 1, 5 * 4096);
    memset(memory, 2, 4 * 4096);
    must(madvise(file + 4096, 8192, MADV_DONTNEED) == 0);
    must(madvise(memory + 4096, 8192, MADV_DONTNEED) == 0);
    printf("%d %c %c %d %d %d\n", file[0], file[4096], file[3 * 4096 - 1], file[3 * 4096], memory[0], memory[4096]);
    printf("%llx %llx\n", (unsigned long long)sum(file, 5 * 4096), (unsigned long long)sum(memory, 4 * 4096));
    // The file has changed meanwhile.
    must(pwrite(fd, "other", 5, 4096) == 5);
    must(madvise(file, 5 * 4096, MADV_DONTNEED) == 0);
    printf("%.5s %.4s %llx\n", file + 4096, file + 4 * 4096, (unsigned long long)sum(file, 5 * 4096));
    must(remove("file") == 0);
}
