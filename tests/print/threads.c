/* A line that several threads execute. The order of the rows is not compared. */
/* at: MARK  print: thread, round, sum  unordered */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long sink;

static void *work(void *argument)
{
    long thread = (long)(intptr_t)argument;
    long sum = 0;
    for (int round = 0; round < 50; round++) {
        sum += thread * round;
        pthread_mutex_lock(&lock);
        printf("thread = %ld, round = %d, sum = %ld\n", thread, round, sum);
        pthread_mutex_unlock(&lock);
        sink = sum; /* MARK */
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
