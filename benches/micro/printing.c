/* A line that is executed a million times, for printing after the fact. */
#include <stdio.h>

static volatile unsigned sink;

int main(void)
{
    unsigned hash = 1;
    for (unsigned i = 0; i < 1000000; i++) {
        hash = hash * 2654435761u + i;
        sink = hash; /* MARK */
    }
    printf("%u\n", sink);
    return 0;
}
