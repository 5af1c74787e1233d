// A process and its child, each with a long log of its own; the child dies, and the
// trace is of the child. The parent ends as the child did.
// expect: exit 134
#include "window.h"

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	int descriptor = chance();
	uint64_t sum = stir(1, descriptor);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		begin();
		for (long number = 0; !told; number++) {
			sum = stir(sum, descriptor);
			step("", number, sum);
			nap();
		}
		printf("end %016lx\n", (unsigned long)sum);
		abort();
	}
	int status;
	while (waitpid(child, &status, WNOHANG) == 0) {
		sum = stir(sum, descriptor);
		nap();
	}
	signal(SIGABRT, SIG_DFL);
	// By the kernel's hand, so that it is saved once.
	_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 3);
}
