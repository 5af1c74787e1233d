// The number of the processor in what cpuid answers: to the program's own code, and to code
// that it has just generated, as compilers do that look what they may emit. It stays in memory
// while signals find the program computing.
// covers: mmap rt_sigaction setitimer
#include "guest.h"

#include <cpuid.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static const unsigned leaves[] = { 1, 0xb, 0x8000001e };
// The second register and the fourth: a word for each leaf.
static volatile unsigned own[3][2], generated[3][2];
static volatile sig_atomic_t come;

static void on_alarm(int signal)
{
	(void)signal;
	come++;
}

// rdi: the leaf. Stores the answer's ebx and edx behind rsi.
static const unsigned char code[] = {
	0x53,             // push rbx
	0x89, 0xf8,       // mov eax, edi
	0x31, 0xc9,       // xor ecx, ecx
	0x0f, 0xa2,       // cpuid
	0x89, 0x1e,       // mov [rsi], ebx
	0x89, 0x56, 0x04, // mov [rsi + 4], edx
	0x5b,             // pop rbx
	0xc3,             // ret
};

int main(void)
{
	unsigned a, c;
	for (int i = 0; i < 3; i++) {
		unsigned b, d;
		__cpuid_count(leaves[i], 0, a, b, c, d);
		own[i][0] = b;
		own[i][1] = d;
	}
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	memcpy(memory, code, sizeof code);
	void (*ask)(unsigned, volatile unsigned *) = (void (*)(unsigned, volatile unsigned *))memory;
	for (int i = 0; i < 3; i++)
		ask(leaves[i], generated[i]);

	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval interval = { { 0, 4000 }, { 0, 4000 } }, none = { { 0, 0 }, { 0, 0 } };
	CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
	unsigned long rounds = 0;
	while (come < 5)
		rounds++;
	CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
	for (int i = 0; i < 3; i++)
		nondet("leaf %x: %x %x, %x %x", leaves[i], own[i][0], own[i][1], generated[i][0], generated[i][1]);
	nondet("rounds %lu", rounds);
	say("five signals");
	return 0;
}
