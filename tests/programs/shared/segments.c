// System V segments side by side: detaching one leaves its neighbour.
#include "../program.h"
#include <sys/shm.h>

int main(void)
{
    int id = shmget(IPC_PRIVATE, 3 * 4096, IPC_CREAT | 0600);
    must(id >= 0);
    char *room = mmap(NULL, 16 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(room != MAP_FAILED && munmap(room, 16 * 4096) == 0);
    char *low = shmat(id, room, 0), *middle = shmat(id, room + 3 * 4096, SHM_RDONLY), *high = shmat(id, room + 6 * 4096, 0);
    must(low == room && middle == room + 3 * 4096 && high == room + 6 * 4096 && shmctl(id, IPC_RMID, NULL) == 0);
    strcpy(low, "low");
    strcpy(high + 4096, "high");
    must(shmdt(high) == 0);
    printf("%s %s\n", middle, middle + 4096);
    must(shmdt(low) == 0);
    printf("%s %s\n", middle, middle + 4096);
    must(shmdt(middle) == 0 && shmdt(middle) == -1);
}
