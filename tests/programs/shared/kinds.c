// shm_open, memfd, System V, /dev/shm files: made by one process, mapped by another at another address.
//@ with: -lrt
#include "../program.h"
#include <sys/ipc.h>
#include <sys/shm.h>

static void use(const char *what, int *parent, int *child_view)
{
    for (int i = 0; i < 500; i++)
    {
        parent[i] = i * 3;
    }
    pid_t child = flushed_fork();
    if (child == 0)
    {
        int sum = 0;
        for (int i = 0; i < 500; i++)
        {
            sum += child_view[i];
            child_view[i] = sum;
        }
        _exit(sum == 374250 ? 0 : 1);
    }
    wait_for(what, child);
    printf("%d %d\n", parent[1], parent[499]);
}

int main(void)
{
    char name[64];
    snprintf(name, sizeof name, "/guest-program-%d", getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    must(fd >= 0 && ftruncate(fd, 4096) == 0);
    int *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shm_unlink(name);
    use("shm_open", a, b);
    printf("%d %d\n", a[499] == b[499], a != b);
    int memfd = memfd_create("anonymous", MFD_CLOEXEC);
    must(memfd >= 0 && ftruncate(memfd, 8192) == 0);
    int *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    use("memfd", m, m);
    int sum;
    must(pread(memfd, &sum, 4, 499 * 4) == 4);
    printf("%d\n", sum);
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    must(id >= 0);
    int *v = shmat(id, NULL, 0), *w = shmat(id, NULL, 0);
    must(shmctl(id, IPC_RMID, NULL) == 0);
    use("System V", v, w);
    struct shmid_ds status;
    must(shmctl(id, IPC_STAT, &status) == 0);
    printf("%d %d\n", w[499], (int)status.shm_segsz);
    must(shmdt(w) == 0);
    printf("%d %d\n", v[499], shmdt(w) == -1);
    must(shmdt(v) == 0);
}
