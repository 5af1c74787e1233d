// Crashes at one place for what holds "first" and "second", and at another for what holds "second" alone.
#include <stdio.h>
#include <string.h>

static void __attribute__((noinline)) wanted(volatile int *at) {
    *at = 1;
}

static void __attribute__((noinline)) another(volatile int *at) {
    *at = 2;
}

int main(void) {
    static char text[1 << 18];
    size_t length = fread(text, 1, sizeof text - 1, stdin);
    text[length] = 0;
    int *volatile nowhere = NULL;
    if (strstr(text, "second") == NULL)
        return 0;
    if (strstr(text, "first") != NULL)
        wanted(nowhere);
    another(nowhere);
    return 0;
}
