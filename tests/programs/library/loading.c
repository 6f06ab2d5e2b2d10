// dlopen, dlsym, dlclose, and the same library once more; lazy binding with many kinds of arguments.
//@ library: ../plugins/plugin.c
//@ cc: -O0 -Wl,-z,lazy
//@ cc: -O2 -Wl,-z,now
//@ with: -ldl -lm
#include "../program.h"
#include <dlfcn.h>
#include <math.h>

int main(void)
{
    for (int round = 0; round < 3; round++)
    {
        void *library = dlopen("./plugin.so", round == 1 ? RTLD_LAZY : RTLD_NOW | RTLD_GLOBAL);
        must(library != NULL);
        int (*work)(int) = dlsym(library, "plugin_work");
        must(work != NULL);
        printf("%d %d\n", work(round), work(7));
        printf("missing %d\n", dlsym(library, "no_such_thing") == NULL);
        must(dlclose(library) == 0);
    }
    printf("%s\n", dlopen("./no-such-library.so", RTLD_NOW) == NULL ? "refused" : "opened");
    double (*by_name)(double) = dlsym(dlopen("libm.so.6", RTLD_LAZY), "cbrt");
    printf("%.6f %.6f\n", by_name(27.5), ldexp(1.25, 4) + fma(2, 3, 4) + hypot(3, 4));
    Dl_info info;
    printf("%d\n", dladdr((void *)printf, &info) != 0);
}
