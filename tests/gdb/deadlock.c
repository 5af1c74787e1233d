// Two threads wait for each other's lock for ever.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *second(void *none) {
    pthread_mutex_lock(&right);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&left);
    return none;
}

static void *first(void *none) {
    pthread_mutex_lock(&left);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&right);
    return none;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&both, 0, 3);
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_barrier_wait(&both);
    alarm(1);
    pthread_join(threads[0], 0);
    return 0;
}
