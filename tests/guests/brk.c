// The program break, raw: queried, raised, lowered, and the memory between.
// covers: brk
#include "guest.h"

int main(void)
{
	say("stdio and malloc are set up first"); // They move the break too.
	uintptr_t start = syscall(SYS_brk, 0);
	CHECK(start);
	nondet("break %lx", (long)start);
	CHECK((uintptr_t)syscall(SYS_brk, start + 5 * 4096) == start + 5 * 4096);
	char *memory = (char *)((start + 4095) & ~4095ul);
	for (int i = 0; i < 4 * 4096; i++)
		CHECK(memory[i] == 0);
	memset(memory, 1, 4 * 4096);
	CHECK((uintptr_t)syscall(SYS_brk, start + 2 * 4096) == start + 2 * 4096);
	CHECK((uintptr_t)syscall(SYS_brk, start + 4 * 4096) == start + 4 * 4096);
	say("kept %d, fresh %d", memory[0], memory[3 * 4096 - 1]);
	CHECK((uintptr_t)syscall(SYS_brk, 4096) == start + 4 * 4096);
	CHECK((uintptr_t)syscall(SYS_brk, 1ul << 62) == start + 4 * 4096);
	CHECK((uintptr_t)syscall(SYS_brk, start + 4 * 4096 + 123) == start + 4 * 4096 + 123);
	CHECK((uintptr_t)syscall(SYS_brk, start) == start);
	pid_t child = fork();
	if (child == 0) {
		CHECK((uintptr_t)syscall(SYS_brk, start + 64 * 4096) == start + 64 * 4096);
		memory[60 * 4096] = 5;
		_exit(memory[60 * 4096]);
	}
	reap("child", child);
	CHECK((uintptr_t)syscall(SYS_brk, 0) == start);
	// Many small blocks make malloc move the break on its own.
	char *blocks[2000];
	for (int i = 0; i < 2000; i++) {
		blocks[i] = malloc(100 + i);
		memset(blocks[i], i, 100 + i);
	}
	unsigned sum = 0;
	for (int i = 0; i < 2000; i += 3)
		sum += (unsigned char)blocks[i][99];
	for (int i = 0; i < 2000; i++)
		free(blocks[i]);
	say("sum %u", sum);
	return 0;
}
