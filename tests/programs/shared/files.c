// A file mapped shared: what is stored shows in read, what is written shows in memory; msync, truncation, two mappings of one file.
//@ unlogged: write(2) changes the file, not by any mapping
#include "../program.h"

int main(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    must(ftruncate(fd, 16384) == 0);
    char *a = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *b = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    char *c = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    must(a != MAP_FAILED && b != MAP_FAILED && c != MAP_FAILED);
    char text[64] = "";
    strcpy(a + 4096, "through the first mapping");
    must(pread(fd, text, 30, 4096) == 30);
    printf("%s | %s | %s\n", text, b, c);
    strcpy(b, "through the second");
    printf("%s | %s\n", a + 4096, c);
    must(pwrite(fd, "by write", 9, 4096) == 9);
    printf("%s | %s | %s\n", a + 4096, b, c);
    must(msync(a, 16384, MS_SYNC) == 0);
    pid_t child = flushed_fork();
    if (child == 0)
    {
        strcpy(b + 100, "from the child");
        must(munmap(a, 16384) == 0);
        _exit(0);
    }
    wait_for("child", child);
    printf("%s | %s\n", a + 4196, c + 100);
    for (int i = 0; i < 4096; i++)
    {
        a[8192 + i] = (char)(i % 26 + 'a');
    }
    must(munmap(a + 8192, 4096) == 0);
    printf("%c %c\n", b[4096], b[5000]);
    must(munmap(b, 8192) == 0 && munmap(c, 4096) == 0 && munmap(a, 8192) == 0);
    char *again = mmap(a, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 8192);
    printf("%d %.26s\n", again == a, again);
    again[0] = 'Z';
    must(mprotect(again, 4096, PROT_READ) == 0);
    printf("%c\n", again[0]);
    close(fd);
    printf("%c\n", again[25]);
}
