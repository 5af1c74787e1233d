// Vector registers survive system calls and signal handlers; handlers get a clean start.
// covers: rt_sigreturn
// needs: cpu:avx2
// build: -mavx2
#include "guest.h"
#include <immintrin.h>

static volatile int handled;

__attribute__((noinline)) static void scramble(void)
{
	__asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n\tvmovdqa %%ymm0, %%ymm1\n\t"
			 "vmovdqa %%ymm0, %%ymm7\n\tvmovdqa %%ymm0, %%ymm15"
			 :
			 :
			 : "xmm0", "xmm1", "xmm7", "xmm15");
}

static void handler(int number)
{
	(void)number;
	handled++;
	scramble();
	_mm_setcsr(0x1f80 | (3 << 13));
}

int main(void)
{
	static const uint64_t pattern[16] __attribute__((aligned(32))) = {
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	uint64_t out[16] __attribute__((aligned(32)));
	signal(SIGUSR1, handler);
	long pid = getpid();
	for (int i = 0; i < 2000; i++) {
		long number = i % 10 == 0 ? SYS_kill : SYS_getppid;
		long result = number;
		memset(out, 0, sizeof out);
		__asm__ volatile("vmovdqa (%[from]), %%ymm0\n\t"
				 "vmovdqa 32(%[from]), %%ymm1\n\t"
				 "vmovdqa 64(%[from]), %%ymm7\n\t"
				 "vmovdqa 96(%[from]), %%ymm15\n\t"
				 "syscall\n\t"
				 "vmovdqa %%ymm0, (%[to])\n\t"
				 "vmovdqa %%ymm1, 32(%[to])\n\t"
				 "vmovdqa %%ymm7, 64(%[to])\n\t"
				 "vmovdqa %%ymm15, 96(%[to])\n\t"
				 : "+a"(result)
				 : [from] "r"(pattern), [to] "r"(out), "D"(pid), "S"((long)SIGUSR1)
				 : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm7", "xmm15");
		CHECK(memcmp(out, pattern, sizeof out) == 0);
	}
	say("handled %d, MXCSR %x", handled, _mm_getcsr());
	// x87 state as well.
	long double third = 1.0L / 3;
	raise(SIGUSR1);
	for (int i = 0; i < 100; i++) {
		third = third * 3 / 3;
		CHECK(getppid() >= 0);
	}
	say("third %.15Lf", third);
	return 0;
}
