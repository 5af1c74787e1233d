// It makes processes all the time, and dies after one of them: those of the last time
// are in the trace.
// expect: signal 6
#include "window.h"

int main(void)
{
	begin();
	int descriptor = chance();
	uint64_t sum = 1;
	for (long number = 0; !told || number % 10 != 1; number++) {
		sum = stir(sum, descriptor);
		step("", number, sum);
		if (number % 10 == 0) {
			pid_t child = fork();
			CHECK(child >= 0);
			if (child == 0)
				_exit((int)(stir(sum, descriptor) % 100));
			int status;
			CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
			sum += (uint64_t)WEXITSTATUS(status);
		}
		nap();
	}
	printf("end %016lx\n", (unsigned long)sum);
	abort();
}
