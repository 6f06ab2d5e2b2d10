// exec of another program: the recording ends there, the program goes on.
//@ args: first
//@ stops alone: executes another program
//@ ends: exit 11
#include "../program.h"

int main(int argc, char **argv)
{
    printf("%s %d\n", argv[1], argc);
    fflush(stdout);
    int fd = open("kept", O_WRONLY | O_CREAT, 0644);
    must(fd == 3);
    execl("/bin/sh", "sh", "-c", "echo second; echo third >&3; exit 11", NULL);
}
