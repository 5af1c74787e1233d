// It only computes, and makes a call now and then: whoever comes finds it in its own code.
// prints-in-replay
#include "attach.h"

int main(void)
{
	permit();
	volatile uint64_t state = 1;
	uint64_t check = 1;
	for (long step = 1;; step++) {
		for (long i = 0; i < 3000000; i++)
			state = state * 6364136223846793005u + 1442695040888963407u;
		for (long i = 0; i < 3000000; i++)
			check = check * 6364136223846793005u + 1442695040888963407u;
		CHECK(state == check);
		printf("step %ld\n", step);
	}
}
