// An exec that looks as if it would succeed and fails: the recording has ended, the program goes on.
//@ stops: the process executes another program
#include "../program.h"

static void try(const char *name, char *const *argv)
{
    errno = 0;
    int result = execv(name, argv);
    printf("%s: %d %s\n", name, result, strerror(errno));
}

static void make(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

int main(void)
{
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[0] = 1;
    char *argv[] = {"x", NULL};
    make("script", "#!/no/such/interpreter\n");
    make("broken", "\177ELF\2\1\1 and no more than that");
    try("script", argv);
    shared[0]++;
    try("broken", argv);
    char *large = malloc(200000);
    memset(large, 'x', 199999);
    large[199999] = 0;
    try("/bin/true", (char *[]){"x", large, NULL});
    try("/bin/true", (char *const *)8);
    // Nobody is left who could be waited for.
    must(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
    printf("%d\n", shared[0]);
    must(remove("script") == 0 && remove("broken") == 0);
}
