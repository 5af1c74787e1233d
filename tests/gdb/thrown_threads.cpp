// Two threads that both live until each has thrown and caught an exception: one after the other.
#include <pthread.h>

static pthread_barrier_t barrier;
static int caught;

static void *work(void *argument)
{
    long own = (long)argument;
    for (long turn = 0; turn < 2; turn++) {
        pthread_barrier_wait(&barrier);
        if (turn != own)
            continue;
        try {
            throw own;
        } catch (long) {
            caught += 1;
        }
    }
    pthread_barrier_wait(&barrier);
    return nullptr;
}

int main()
{
    pthread_t workers[2];
    pthread_barrier_init(&barrier, nullptr, 2);
    for (long i = 0; i < 2; i++)
        pthread_create(&workers[i], nullptr, work, (void *)i);
    for (pthread_t worker : workers)
        pthread_join(worker, nullptr);
    return caught - 2;
}
