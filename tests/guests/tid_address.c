// The word that the kernel clears at a thread's end is the program's own, also when
// it asks for it (PR_GET_TID_ADDRESS) and gives it back.
// covers: prctl set_tid_address
#include "guest.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *work(void *unused)
{
	int *word = NULL;
	int result = prctl(40, &word, 0, 0, 0);
	printf("asked: %d, it holds the thread's id: %d\n", result,
	       result != 0 || *word == (int)syscall(SYS_gettid));
	if (result == 0)
		syscall(SYS_set_tid_address, word);
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	puts("joined");
	return 0;
}
