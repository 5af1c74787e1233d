// It makes processes and waits for them. (One that has ended does not come back: no rollback.)
// prints-in-replay
// without-rollback
#include "attach.h"
#include <sys/wait.h>

int main(void)
{
	permit();
	for (long step = 1;; step++) {
		pid_t child = fork();
		if (child == 0)
			_exit(step % 100);
		int status;
		CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == step % 100);
		printf("step %ld\n", step);
		nap(10);
	}
}
