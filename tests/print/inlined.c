/* A line whose code begins with that of a function that was inlined there: names are the line's. */
/* at: MARK  print: i, value, total */
#include <stdio.h>

static volatile long total;

static inline __attribute__((always_inline)) void add(long value)
{
    long i = value * 2;
    total += i;
}

__attribute__((noinline)) static void work(int i, int value)
{
    printf("i = %d, value = %d, total = %ld\n", i, value, total);
    fflush(stdout);
    add(i + value); /* MARK */
}

int main(void)
{
    for (int i = 0; i < 5; i++)
        work(i, i * 10);
    return 0;
}
