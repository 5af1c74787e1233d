// Two processes that share memory wait for each other again and again: however the turn
// goes to and fro, both find the processors that the program has set, and hand them on.
// covers: sched_getaffinity sched_setaffinity
#include "guest.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ROUNDS 2000

static int to_child[2], to_parent[2];
static cpu_set_t all;

static void wait_for_each_other(int in, int out, int first)
{
	char byte = 'x';
	if (first)
		CHECK(write(out, &byte, 1) == 1);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(read(in, &byte, 1) == 1);
		if (i < ROUNDS - 1 || !first)
			CHECK(write(out, &byte, 1) == 1);
	}
}

static void expect(const cpu_set_t *wanted)
{
	cpu_set_t now;
	CHECK(sched_getaffinity(0, sizeof now, &now) == 0);
	CHECK(CPU_EQUAL(&now, wanted));
}

// What a child of the process has.
static void expect_of_child(void)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		expect(&all);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void both(int in, int out, int first)
{
	for (int round = 0; round < 3; round++) {
		wait_for_each_other(in, out, first);
		expect(&all);
	}
	wait_for_each_other(in, out, first);
	expect_of_child();
	cpu_set_t one;
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
	wait_for_each_other(in, out, first);
	expect(&one);
}

int main(void)
{
	int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED && pipe(to_child) == 0 && pipe(to_parent) == 0);
	CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		both(to_child[0], to_parent[1], 0);
		*shared = 7;
		_exit(0);
	}
	both(to_parent[0], to_child[1], 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(*shared == 7);
	say("as it was set");
	return 0;
}
