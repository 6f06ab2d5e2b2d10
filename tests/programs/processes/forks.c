// fork: both sides go on with memory of their own; pipes both ways; grandchildren; wait in any order.
#include "../program.h"

int main(void)
{
    int to_child[2], to_parent[2];
    must(pipe(to_child) == 0 && pipe(to_parent) == 0);
    int value = 5;
    pid_t child = flushed_fork();
    if (child == 0)
    {
        int number;
        while (read(to_child[0], &number, sizeof number) == sizeof number && number >= 0)
        {
            value += number;
            must(write(to_parent[1], &value, sizeof value) == sizeof value);
        }
        printf("child ends with %d\n", value);
        exit(3);
    }
    for (int i = 0; i < 5; i++)
    {
        int answer;
        must(write(to_child[1], &i, sizeof i) == sizeof i);
        must(read(to_parent[0], &answer, sizeof answer) == sizeof answer);
        printf("%d -> %d, mine %d\n", i, answer, value);
    }
    fflush(stdout);
    int stop = -1;
    must(write(to_child[1], &stop, sizeof stop) == sizeof stop);
    wait_for("child", child);
    child = flushed_fork();
    if (child == 0)
    {
        pid_t grandchild = flushed_fork();
        if (grandchild == 0)
        {
            _exit(value + 1);
        }
        wait_for("grandchild", grandchild);
        exit(value);
    }
    wait_for("child", child);
    pid_t children[8];
    int sum = 0;
    for (int i = 0; i < 8; i++)
    {
        children[i] = flushed_fork();
        if (children[i] == 0)
        {
            _exit(10 + i);
        }
    }
    for (int i = 0; i < 8; i++)
    {
        int status;
        pid_t pid = wait(&status);
        for (int k = 0; k < 8; k++)
        {
            sum += pid == children[k] ? WEXITSTATUS(status) - k : 0;
        }
    }
    pid_t more = wait(NULL);
    printf("sum %d, no more: %d %s\n", sum, more, strerror(errno));
}
