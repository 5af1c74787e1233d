/* A line that is executed often, of which few times are wanted. */
/* at: MARK  print: i, hash  if: i % 1000 == 7 && hash != 0 */
#include <stdio.h>

static volatile unsigned sink;

int main(void)
{
    unsigned hash = 1;
    for (unsigned i = 0; i < 20000; i++) {
        hash = hash * 2654435761u + i;
        if (i % 1000 == 7 && hash != 0)
            printf("i = %u, hash = %u\n", i, hash);
        sink = hash; /* MARK */
    }
    return 0;
}
