/* A line of a library that is loaded late, and unloaded, and loaded again. */
/* at: MARK  print: what, count  library */
#include <stdio.h>

#ifdef LIBRARY
static int count = 3;
static volatile int sink;

void visit(const char *what)
{
    count++;
    printf("what = \"%s\", count = %d\n", what, count);
    sink = count; /* MARK */
}
#else
#include <dlfcn.h>

int main(int count, char **words)
{
    static const char *names[] = {"one", "two", "three"};
    if (count != 2)
        return 2;
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(words[1], RTLD_NOW);
        if (!library)
            return 1;
        void (*visit)(const char *) = (void (*)(const char *))dlsym(library, "visit");
        visit(names[i]);
        visit("again");
        dlclose(library);
    }
    return 0;
}
#endif
