// covers: clone futex
// Two threads that spin for each other in loops of many instructions, as emulators and
// interpreters do: neither the place nor the registers are the same at two looks.
#include "threads.h"

#define ROUNDS 100

enum { WAIT, ADD, SET, LOOP, END };

struct instruction {
	unsigned char code, to, from;
	int value;
};

struct machine {
	unsigned long registers[8];
	const struct instruction *program;
};

static atomic_int turn;
static unsigned long sum;

static int step(struct machine *machine, int at)
{
	const struct instruction *now = &machine->program[at];
	unsigned long *registers = machine->registers;
	switch (now->code) {
	case WAIT:
		return atomic_load(&turn) == now->value ? at + 1 : at;
	case ADD:
		registers[now->to] += registers[now->from] + now->value;
		return at + 1;
	case SET:
		sum = sum * 3 + registers[now->from];
		atomic_store(&turn, now->value);
		return at + 1;
	case LOOP:
		return --registers[now->from] ? 0 : at + 1;
	default:
		return -1;
	}
}

static void *emulate(void *argument)
{
	int own = (int)(long)argument;
	struct instruction program[] = {
		{WAIT, 0, 0, own}, {ADD, 1, 2, own + 1}, {ADD, 2, 1, 1},
		{SET, 0, 1, !own}, {LOOP, 0, 0, 0},      {END, 0, 0, 0},
	};
	struct machine machine = {.registers = {ROUNDS}, .program = program};
	for (int at = 0; at >= 0;)
		at = step(&machine, at);
	return (void *)machine.registers[1];
}

int main(void)
{
	pthread_t first = start(emulate, (void *)0), second = start(emulate, (void *)1);
	long ended = join(first);
	say("registers %lx and %lx", (unsigned long)ended, (unsigned long)join(second));
	say("sum %lx", sum);
	return 0;
}
