/* A line of a library that is loaded late, and unloaded, and loaded again. */
/* at: MARK  print: what, count, each, seen[1]  library */
#include <stdio.h>

#ifdef LIBRARY
static int count = 3;
static __thread int each = 7;
__thread long seen[2] = {5, 6};
static volatile int sink;

void visit(const char *what)
{
    count++;
    each += 2;
    seen[1] *= 2;
    printf("what = \"%s\", count = %d, each = %d, seen[1] = %ld\n", what, count, each, seen[1]);
    sink = count; /* MARK */
}
#else
#include <dlfcn.h>
#include <pthread.h>

static void *call(void *visit)
{
    ((void (*)(const char *)) visit)("elsewhere");
    return NULL;
}

int main(int count, char **words)
{
    static const char *names[] = {"one", "two", "three"};
    if (count != 2)
        return 2;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *library = dlopen(words[1], RTLD_NOW);
        if (!library)
            return 1;
        void (*visit)(const char *) = (void (*)(const char *))dlsym(library, "visit");
        visit(names[i]);
        visit("again");
        pthread_create(&thread, NULL, call, (void *) visit);
        pthread_join(thread, NULL);
        dlclose(library);
    }
    return 0;
}
#endif
