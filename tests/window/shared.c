// It shares memory with a child: no trace of it can begin later than it did itself, and
// that is said.
// expect: signal 6
// refused: it shares memory with other processes, or could (MAP_SHARED)
#include "window.h"

int main(void)
{
	uint64_t *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(common != MAP_FAILED);
	int ends[2];
	CHECK(pipe(ends) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		close(ends[1]);
		// Until the other is gone.
		_exit(read(ends[0], &byte, 1) == 0 ? 0 : 3);
	}
	close(ends[0]);
	begin();
	int descriptor = chance();
	for (long number = 0; !told; number++) {
		*common = stir(*common, descriptor);
		step("", number, *common);
		nap();
	}
	abort();
}
