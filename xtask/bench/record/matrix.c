// Product of two matrices of doubles, by rows and by columns.
#include <stdio.h>

#define N 400

static double a[N][N], b[N][N], c[N][N];

int main(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = i + j, b[i][j] = i - j;
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++) {
                double x = a[i][k];
                for (int j = 0; j < N; j++) c[i][j] += x * b[k][j];
            }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int k = 0; k < N; k++) sum += a[i][k] * b[k][j];
                c[i][j] += sum;
            }
    }
    printf("%g\n", c[17][42]);
    return 0;
}
