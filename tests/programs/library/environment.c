// The program's environment and arguments are its own, not ours.
//@ args: one two=2 --three
#include "../program.h"
extern char **environ;

int main(int argc, char **argv)
{
    for (char **entry = environ; *entry != NULL; entry++)
    {
        printf("%s\n", *entry);
    }
    for (int i = 1; i < argc; i++)
    {
        printf("%d %s\n", i, argv[i]);
    }
    setenv("NEW", "value", 1);
    setenv("HOME", "nowhere", 1);
    unsetenv("TZ");
    printf("%s %s %d %d\n", getenv("NEW"), getenv("HOME"), getenv("TZ") == NULL, getenv("LD_PRELOAD") == NULL);
    fflush(stdout);
    must(system("echo \"$NEW $HOME ${LD_PRELOAD-none}\"; env | grep -c UNDO; exit 3") >> 8 == 3);
    clearenv();
    printf("%d\n", getenv("PATH") == NULL);
}
