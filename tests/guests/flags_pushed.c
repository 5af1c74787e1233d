// Code pushes the processor's flags where it may be stepped through: in a loop of several functions that waits for another
// thread, and behind a system call. The trap flag is in none of them, and no trap comes when they are popped.
// covers: clone futex nanosleep getppid
#include "guest.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#define ROUNDS 20
#define TRAP_FLAG 0x100ul

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int set, seen;
static unsigned table[16];

static __attribute__((noinline)) int is_set(int round)
{
	pthread_mutex_lock(&lock);
	int is = set > round;
	pthread_mutex_unlock(&lock);
	return is;
}

// As compilers of virtual machines keep them across a call.
static __attribute__((noinline)) unsigned long kept_flags(void)
{
	unsigned long flags, behind;
	__asm__ volatile("sub $128, %%rsp\n\tpushfq\n\tnop\n\tmov (%%rsp), %0\n\tpopfq\n\tpushfq\n\tpop %1\n\tadd $128, %%rsp"
			 : "=r"(flags), "=r"(behind)
			 :
			 : "memory", "cc");
	return flags | behind;
}

static void *waits(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		while (!is_set(round)) {
			CHECK(!(kept_flags() & TRAP_FLAG));
			table[15] = table[round % 15] * 0;
		}
		table[round % 15]++;
		seen++;
	}
	return unused;
}

static unsigned long flags_behind_call(void)
{
	unsigned long number = SYS_getppid, flags;
	__asm__ volatile("sub $128, %%rsp\n\tsyscall\n\tpushfq\n\tpop %1\n\tadd $128, %%rsp"
			 : "+a"(number), "=&r"(flags)
			 :
			 : "rcx", "r11", "memory", "cc");
	return flags;
}

int main(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		CHECK(nanosleep(&(struct timespec){0, 10000000}, NULL) == 0);
		for (int i = 0; i < 50; i++)
			CHECK(!(flags_behind_call() & TRAP_FLAG));
		pthread_mutex_lock(&lock);
		set++;
		pthread_mutex_unlock(&lock);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	say("%d of %d, none of the flags was the trap flag", seen, ROUNDS);
	return 0;
}
