// Coroutines by makecontext and swapcontext on stacks of their own.
#include "../program.h"
#include <ucontext.h>

static ucontext_t main_context, workers[3];
static int finished;

static void work(int id, int steps)
{
    for (int i = 0; i < steps; i++)
    {
        char text[64];
        snprintf(text, sizeof text, "worker %d step %d %.1f\n", id, i, id + i / 2.0);
        fputs(text, stdout);
        must(swapcontext(&workers[id], &main_context) == 0);
    }
    finished++;
}

int main(void)
{
    for (int id = 0; id < 3; id++)
    {
        must(getcontext(&workers[id]) == 0);
        workers[id].uc_stack.ss_sp = malloc(65536);
        workers[id].uc_stack.ss_size = 65536;
        workers[id].uc_link = &main_context;
        makecontext(&workers[id], (void (*)(void))work, 2, id, 3 + id);
    }
    for (int round = 0; finished < 3; round++)
    {
        for (int id = 0; id < 3; id++)
        {
            if (round <= 3 + id)
            {
                must(swapcontext(&main_context, &workers[id]) == 0);
            }
        }
    }
    printf("finished %d\n", finished);
}
