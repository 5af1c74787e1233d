// Many short-lived processes with pipes between them, some killed by their parent.
// covers: fork wait4 kill pipe2
#include "guest.h"

int main(void)
{
	uint64_t hash = 0;
	for (int round = 0; round < 60; round++) {
		int p[2];
		char byte;
		CHECK(pipe2(p, O_CLOEXEC) == 0);
		pid_t child = fork();
		if (child == 0) {
			CHECK(write(p[1], "r", 1) == 1);
			if (round % 3 == 0)
				for (;;)
					pause();
			_exit(round);
		}
		CHECK(read(p[0], &byte, 1) == 1);
		if (round % 3 == 0)
			CHECK(kill(child, SIGTERM) == 0);
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		hash = hash * 31 + status;
		close(p[0]);
		close(p[1]);
	}
	say("hash %llx", (unsigned long long)hash);
	return 0;
}
