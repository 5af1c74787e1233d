/* Calculation with floating-point numbers. It writes itself what is to be printed. */
/* at: MARK  print: x, s, x * 2.5, s / 4, -x, x + i, i / 4.0, (int) x, (unsigned char) s, (double) i / 8, (float) i * s, x > 1.5, x <= s, !x, x == 0.25 && s, list[i].weight * 3 - 1e0, (x + s) * 0.5f, big / 4294967296.0  if: i / 4.0 < 0.8 && i * 0.5f != 7 */
#include <stdio.h>

struct item {
    char letter;
    double weight;
};

struct item list[] = {{'a', 0.5}, {'b', -2.25}, {'c', 1e3}, {'d', 0}};
static volatile double sink;
unsigned long big = 1ul << 63;

__attribute__((noinline)) static void consume(double x, float s, int i)
{
    sink = x + s + i;
}

__attribute__((noinline)) static void show(double x, float s, int i)
{
    if (i / 4.0 < 0.8 && i * 0.5f != 7) {
        printf("x = %.17g, s = %.9g, x * 2.5 = %.17g, s / 4 = %.9g, -x = %.17g, x + i = %.17g, ", x, s,
               x * 2.5, s / 4, -x, x + i);
        printf("i / 4.0 = %.17g, (int) x = %d, (unsigned char) s = %d '\\%03o', ", i / 4.0, (int) x,
               (unsigned char) s, (unsigned char) s);
        printf("(double) i / 8 = %.17g, (float) i * s = %.9g, x > 1.5 = %d, x <= s = %d, !x = %d, ",
               (double) i / 8, (float) i * s, x > 1.5, x <= s, !x);
        printf("x == 0.25 && s = %d, list[i].weight * 3 - 1e0 = %.17g, (x + s) * 0.5f = %.17g, ",
               x == 0.25 && s, list[i].weight * 3 - 1e0, (x + s) * 0.5f);
        printf("big / 4294967296.0 = %.17g\n", big / 4294967296.0);
        fflush(stdout);
    }
    consume(x, s, i); /* MARK */
}

int main(void)
{
    show(0.25, 1, 0);
    show(-3.5, 2.5f, 1);
    show(1234.0625, 0.125f, 2);
    show(0, 0, 3);
    show(3.25, 1.5f, 9);
    return 0;
}
