// mmap of anonymous memory and files, at chosen addresses, beyond the end, split and joined; mremap, brk, madvise, mincore, mlock.
#include "../program.h"

int main(void)
{
    char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, 1 << 20);
    must(munmap(p + 8192, 4096) == 0);
    must(mprotect(p + 4096, 4096, PROT_READ) == 0);
    must(madvise(p + 16384, 8192, MADV_DONTNEED) == 0);
    printf("%d %d %d %d\n", p[0], p[4096], p[16384], p[24576]);
    char *q = mremap(p + 65536, 65536, 262144, MREMAP_MAYMOVE);
    must(q != MAP_FAILED);
    q[262143] = 9;
    printf("%d %d %d\n", q[0], q[65535], q[65536]);
    q = mremap(q, 262144, 4096, 0);
    printf("%d\n", q[4095]);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 3000; i++)
    {
        must(write(fd, &i, 4) == 4);
    }
    int *ints = mmap(NULL, 12000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    int *second = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 8192);
    ints[2500] = -1;
    int on_disk;
    must(pread(fd, &on_disk, 4, 10000) == 4);
    printf("%d %d %d %d %d\n", ints[0], ints[2500], second[0], on_disk, ints[3001]);
    char *start = sbrk(0);
    must(sbrk(100000) == start);
    memset(start, 7, 100000);
    must(sbrk(-50000) != (void *)-1 && brk(start + 200000) == 0);
    printf("%d %d %d\n", start[100], start[49000], start[199999]);
    must(brk(start) == 0);
    char *fixed = mmap((void *)0x123450000000, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    printf("%lx\n", (long)fixed);
    strcpy(fixed, "fixed");
    int again = mmap(fixed, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED;
    printf("%d %s %s\n", again, strerror(errno), fixed);
    unsigned char resident[2];
    fixed[4096] = 1;
    must(mincore(fixed, 8192, resident) == 0);
    printf("%d %d %d\n", resident[0] & 1, resident[1] & 1, mlock(fixed, 4096));
    char *growing = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE, -1, 0);
    printf("%d %s\n", growing[77], mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? strerror(errno) : "mapped");
    printf("%d\n", munmap((void *)1, 4096));
}
