// Shared memory that becomes code, and a segment that is detached after its rights were changed in parts.
#include "../program.h"
#include <sys/shm.h>

int main(void)
{
    int all = PROT_READ | PROT_WRITE;
    unsigned char *code = mmap(NULL, 3 * 4096, all, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(code != MAP_FAILED);
    // mov eax, 0; ret
    memcpy(code + 4096, "\xb8\0\0\0\0\xc3", 6);
    for (int i = 1; i < 4; i++)
    {
        code[4097] = i;
        must(mprotect(code + 4096, 4096, PROT_READ | PROT_EXEC) == 0);
        printf("%d %d\n", ((int (*)(void))(code + 4096))(), code[4097]);
        code[0]++, code[8192]--;
        must(mprotect(code + 4096, 4096, all) == 0);
    }
    printf("%llx\n", (unsigned long long)mix(1, code, 3 * 4096));

    int id = shmget(IPC_PRIVATE, 5 * 4096, IPC_CREAT | 0600);
    must(id >= 0);
    // Right behind each other, where both are free.
    char *place = mmap(NULL, 10 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(place != MAP_FAILED && munmap(place, 10 * 4096) == 0);
    char *other = shmat(id, place, 0), *segment = shmat(id, place + 5 * 4096, 0);
    must(segment != (void *)-1 && other != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    memset(segment, 5, 5 * 4096);
    must(mprotect(segment + 4096, 4096, PROT_READ) == 0 && mprotect(segment + 3 * 4096, 4096, PROT_NONE) == 0);
    must(munmap(segment + 2 * 4096, 4096) == 0);
    segment[4 * 4096]++;
    printf("%d %d\n", segment[4096], other[4 * 4096]);
    must(shmdt(segment) == 0);
    unsigned char there;
    for (int i = 0; i < 5; i++)
        must(mincore(segment + i * 4096, 4096, &there) == -1 && errno == ENOMEM);
    must(shmdt(segment) == -1);
    // Its place is free.
    must(mmap(segment, 5 * 4096, all, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == segment);
    must(segment[4096] == 0 && other[4096] == 5 && shmdt(other) == 0);
}
