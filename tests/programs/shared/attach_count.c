// The number of attachments of a System V segment counts the program's, not ours.
#include "../program.h"
#include <sys/ipc.h>
#include <sys/shm.h>

int main(void)
{
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    must(id >= 0);
    struct shmid_ds status;
    for (int i = 0; i < 3; i++)
    {
        int *at = shmat(id, NULL, 0);
        at[0] = i;
        must(shmctl(id, IPC_STAT, &status) == 0);
        printf("%d\n", (int)status.shm_nattch);
    }
    must(shmctl(id, IPC_RMID, NULL) == 0);
}
