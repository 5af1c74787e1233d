// More places that read the time stamp counter than the runtime keeps: those that are left
// trap. The calls of such a program are recorded as those of any other.
// covers: getppid
#include "guest.h"

// 4000 functions of their own, so that each of them is one place.
__asm__(".text\n"
	".p2align 4\n"
	".type readers, @function\n"
	"readers:\n"
	".rept 4000\n"
	".p2align 4\n"
	"rdtsc\n"
	"shl $32, %rdx\n"
	"or %rdx, %rax\n"
	"ret\n"
	".endr\n");
extern char readers[];

int main(void)
{
	uint64_t last = 0, mixed = 0;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4000; i++) {
			uint64_t now = ((uint64_t(*)(void))(readers + i * 16))();
			CHECK(now >= last);
			mixed = mixed * 31 + (now - last);
			last = now;
			CHECK(getppid() > 0);
		}
	}
	nondet("mixed %llx", (unsigned long long)mixed);
	say("time never went back");
	return 0;
}
