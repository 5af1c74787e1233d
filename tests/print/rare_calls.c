/* Of many calls few are wanted: the others cost no more than what their condition does. */
/* calls: weigh, climb  if: n % 500000 == 3 */
#include <setjmp.h>
#include <stdio.h>

static volatile long total;
static jmp_buf back;
static int jumps;

__attribute__((noipa)) static long weigh(int n, int k)
{
    long result = n % 2 ? 3L * n + k : n - k;
    if (jumps && n % 1000000 == 3)
        longjmp(back, 1);
    return result;
}

/* One call that is wanted has others in it, and is in others. */
__attribute__((noipa)) static int climb(int n)
{
    int below = n ? climb(n - 1) + 1 : 0;
    total++;
    return below;
}

int main(void)
{
    for (int n = 0; n < 1500000; n++)
        total += weigh(n, 7);
    printf("weigh(n = 3, k = 7) = 16\nweigh(n = 500003, k = 7) = 1500016\nweigh(n = 1000003, k = 7) = 3000016\n");
    total += climb(40);
    total += climb(2);
    printf("climb(n = 3) = 3\n");
    /* What was left without returning does not return later. */
    jumps = 1;
    if (!setjmp(back))
        total += weigh(3, 1);
    jumps = 0;
    total += weigh(4, 1);
    total += weigh(3, 2);
    printf("weigh(n = 3, k = 1) = <no return was seen>\nweigh(n = 3, k = 2) = 11\n");
    return 0;
}
