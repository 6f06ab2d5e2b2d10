// As many histories as are documented; with one more, stopping fails and recording goes on.
#include "../api.h"

enum { COUNT = 64 };

int main(void)
{
    undolr_recording_context_t histories[COUNT], more = NULL;
    for (int i = 0; i < COUNT; i++)
    {
        works(undolr_start(NULL));
        works(undolr_stop(&histories[i]));
    }
    works(undolr_start(NULL));
    fails(undolr_stop(&more), ENOMEM);
    must(more == NULL);
    works(undolr_discard(histories[7]));
    works(undolr_stop(&more));
    histories[7] = more;
    for (int i = 0; i < COUNT; i++)
    {
        works(undolr_discard(histories[i]));
    }
    fails(waitpid(-1, NULL, __WALL | WNOHANG), ECHILD);
}
