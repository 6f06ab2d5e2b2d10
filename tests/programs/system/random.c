// Random numbers of the kernel differ from call to call.
#include "../program.h"
#include <sys/auxv.h>
#include <sys/random.h>

int main(void)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    must(getrandom(&a, 8, 0) == 8 && getrandom(&b, 8, GRND_NONBLOCK) == 8 && getentropy(&c, 8) == 0);
    int fd = open("/dev/urandom", O_RDONLY);
    must(read(fd, &d, 8) == 8);
    printf("%d\n", a != b && b != c && c != d);
    const uint64_t *seed = (const uint64_t *)getauxval(AT_RANDOM);
    printf("%d %ld %s\n", seed[0] != seed[1], getauxval(AT_PAGESZ), getauxval(AT_SYSINFO_EHDR) != 0 ? "vdso" : "none");
    srand48((long)a);
    printf("%d\n", drand48() != drand48());
}
