// A parent that fills shared memory, and a child that reads it and finds one value too many: no library of ours is linked.
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { n_elements = 20, bad_element = 13 };

struct inner
{
    short low;
    char text[8];
};

struct shared
{
    int values[n_elements];
    int touched_once;
    int overwritten;
    int never_touched;
    double ratio;
    struct inner inner;
};

static struct shared *shared;
static int to_child[2], to_parent[2];

static void wake(const int *ends)
{
    if (write(ends[1], "", 1) != 1)
    {
        exit(2);
    }
}

static void wait_for(const int *ends)
{
    char token;
    if (read(ends[0], &token, 1) != 1)
    {
        exit(3);
    }
}

static int make_value(int index)
{
    return index == bad_element ? 100 : index * 7 % 100;
}

static int check(void)
{
    int sum = 0;
    for (int index = 0; index < n_elements; index++)
    {
        int value = shared->values[index];
        assert(value < 100);
        sum += value;
    }
    return sum;
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe(to_child) != 0 || pipe(to_parent) != 0)
    {
        return 4;
    }
    pid_t child = fork();
    if (child == 0)
    {
        wait_for(to_child);
        shared->ratio = 0.5;
        shared->inner.low = 7;
        shared->inner.text[0] = 'x';
        int seen = shared->touched_once + shared->overwritten;
        wake(to_parent);
        wait_for(to_child);
        return check() + seen;
    }
    shared->touched_once = 42;
    shared->overwritten = 1;
    wake(to_child);
    wait_for(to_parent);
    shared->overwritten = 2;
    for (int index = 0; index < n_elements; index++)
    {
        int value = make_value(index);
        shared->values[index] = value;
    }
    wake(to_child);
    int status;
    waitpid(child, &status, 0);
    return 0;
}
