// The owner of a robust mutex in shared memory is killed: the kernel marks the
// mutex, and no call of either process says so.
// covers: futex set_robust_list kill wait4
#include "guest.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

int main(void)
{
	pthread_mutex_t *lock =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(lock, &attributes);
	pid_t child = fork();
	if (child == 0) {
		pthread_mutex_lock(lock);
		raise(SIGKILL);
	}
	waitpid(child, NULL, 0);
	puts(pthread_mutex_lock(lock) == EOWNERDEAD ? "its owner died" : "something else");
	return 0;
}
