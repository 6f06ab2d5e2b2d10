// x87: long double arithmetic, the stack, the control word, environment saves, transcendental functions.
//@ with: -lm
#include "../program.h"
#include <fenv.h>
#include <math.h>

int main(void)
{
    long double sum = 0, product = 1;
    for (int i = 1; i < 2000; i++)
    {
        sum += 1.0L / i;
        product *= 1.0L + 1.0L / (i * (long double)i);
        sum -= sinl(product) * cosl(sum) / 100;
    }
    printf("%.18Lf %.18Lf %La\n", sum, product, sum);
    printf("%.15f %.15f %.15f %.15f\n", pow(2.5, 3.7), exp(1.5), log(7.7), atan2(3, -2));
    printf("%Lf %Lf %ld %d\n", fmodl(17.5L, 5.25L), remainderl(17.5L, 5.25L), lrintl(2.5L), ilogbl(1e300L));
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++)
    {
        fesetround(modes[i]);
        volatile long double one = 1, three = 3;
        volatile double d = 1, e = 3;
        printf("%La %a %ld\n", one / three, d / e, lrintl(-2.5L));
    }
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    volatile double zero = 0, ratio = 1 / zero;
    printf("%d %f\n", fetestexcept(FE_ALL_EXCEPT) == FE_DIVBYZERO, ratio);
    unsigned short control, status;
    double a, b;
    asm volatile("fninit\n\tfldpi\n\tfldl2e\n\tfxch\n\tfstpl %0\n\tfstpl %1\n\tfnstcw %2\n\tfnstsw %3" : "=m"(a), "=m"(b), "=m"(control), "=a"(status));
    printf("%.15f %.15f %x %x\n", a, b, control, status);
}
