// An exec that fails changes nothing: the program goes on, and so does its recording.
//@ fails: an exec that fails ends the recording
#include "../program.h"

int main(void)
{
    static const char *const names[] = {"/no/such/program", "/etc/passwd", "/"};
    for (int i = 0; i < 3; i++)
    {
        int result = execl(names[i], "x", NULL);
        printf("%s: %d %s\n", names[i], result, strerror(errno));
    }
    printf("still here\n");
}
