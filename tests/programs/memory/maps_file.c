// The program finds its own memory in /proc/self/maps, and its own name in /proc/self/exe and comm.
#include "../program.h"

static char data[100] = "data";

int main(int argc, char **argv)
{
    (void)argc;
    char line[4500], here[4096];
    char *heap = malloc(100), *map = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(map + 4096, 4096, PROT_NONE);
    const void *places[] = {(void *)main, data, heap, line, (void *)printf, map, map + 4096};
    const char *names[] = {"code", "data", "heap", "stack", "library", "map", "hole"};
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL)
    {
        unsigned long from, to;
        char rights[5];
        must(sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3);
        for (int i = 0; i < 7; i++)
        {
            if ((unsigned long)places[i] >= from && (unsigned long)places[i] < to)
            {
                printf("%s %s\n", names[i], rights);
            }
        }
    }
    ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    here[n] = 0;
    printf("%d\n", strcmp(here, argv[0]) == 0);
    FILE *cmdline = fopen("/proc/self/cmdline", "r");
    must(fgets(here, sizeof here, cmdline) != NULL);
    printf("%d\n", strcmp(here, argv[0]) == 0);
}
