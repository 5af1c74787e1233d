/* Results that are in a register of the x87. */
/* calls: scaled, halved */
#include <stdio.h>

__attribute__((noipa)) static long double scaled(int n)
{
    return n * 1.5L;
}

__attribute__((noipa)) static long double halved(double x)
{
    return x / 2;
}

int main(void)
{
    long double sum = 0;
    for (int n = -2; n < 3; n++) {
        sum += scaled(n);
        printf("scaled(n = %d) = %Lg\n", n, n * 1.5L);
    }
    sum += halved(5);
    printf("halved(x = 5) = 2.5\n");
    return sum == 2.5L ? 0 : 1;
}
