/* Memory that is read, written and passed to system calls, with calls between. */
#include <unistd.h>

static volatile long looked_at[2];
static volatile long sum;
static volatile int idles;

__attribute__((noinline)) static void idle(int round)
{
    idles += round;
}

__attribute__((noinline)) static long look(int round)
{
    long before = looked_at[0];
    if (round % 3 == 0)
        looked_at[0] = before + round + 1;
    looked_at[1] = round;
    return before;
}

int main(void)
{
    for (int round = 0; round < 6; round++) {
        idle(round);
        sum += look(round);
        getppid();
        idle(round);
    }
    return sum == 13 ? 0 : 1;
}
