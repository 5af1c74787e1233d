// Data below the stack pointer survives inline system calls and rdtsc.
// covers: getppid getuid
// build: -fno-omit-frame-pointer
#include "guest.h"

__attribute__((noinline)) static long leaf(long seed)
{
	long sum, number = SYS_getuid;
	__asm__ volatile("movq %[seed], -8(%%rsp)\n\t"
			 "leaq 1(%[seed]), %%r8\n\tmovq %%r8, -64(%%rsp)\n\t"
			 "leaq 2(%[seed]), %%r8\n\tmovq %%r8, -120(%%rsp)\n\t"
			 "leaq 3(%[seed]), %%r8\n\tmovq %%r8, -128(%%rsp)\n\t"
			 "syscall\n\t"
			 "rdtsc\n\t"
			 "movq -8(%%rsp), %%rax\n\taddq -64(%%rsp), %%rax\n\t"
			 "addq -120(%%rsp), %%rax\n\taddq -128(%%rsp), %%rax\n\t"
			 : "=a"(sum), "+d"(number)
			 : [seed] "r"(seed), "0"((long)SYS_getuid)
			 : "rcx", "r8", "r11", "cc", "memory");
	return sum;
}

int main(void)
{
	// The function's frame lies above: its red zone is free for the asm.
	long total = 0;
	for (long i = 0; i < 1000; i++) {
		long got = leaf(i);
		CHECK(got == 4 * i + 6);
		total += got;
	}
	say("total %ld", total);
	return 0;
}
