/* A line that several processes execute. */
/* at: MARK  print: child, value  unordered */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) static void step(int child, int value)
{
    char text[64];
    int bytes = snprintf(text, sizeof text, "child = %d, value = %d\n", child, value);
    if (write(1, text, (size_t)bytes) != bytes)
        _exit(1);
    sink = value; /* MARK */
}

int main(void)
{
    for (int child = 0; child < 3; child++) {
        if (fork() == 0) {
            for (int value = 0; value < 4; value++)
                step(child, value * value);
            _exit(0);
        }
        wait(NULL);
    }
    step(-1, 100);
    return 0;
}
