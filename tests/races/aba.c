// A lock-free stack without counters: a pop succeeds though its top was taken and put back.
#include "race.h"

struct node {
	_Atomic(struct node *) next;
	atomic_int owners;
};

static struct node nodes[3];
static _Atomic(struct node *) top;

static void push(struct node *node)
{
	struct node *old = atomic_load(&top);
	do
		atomic_store(&node->next, old);
	while (!atomic_compare_exchange_weak(&top, &old, node));
}

// Between reading what follows and the exchange the stack may become another one with the same top.
static struct node *pop(long window_steps)
{
	struct node *old = atomic_load(&top), *next;
	do {
		if (!old)
			return NULL;
		next = atomic_load(&old->next);
		if (window_steps) {
			work(window_steps);
			syscall(SYS_getpid);
		}
	} while (!atomic_compare_exchange_strong(&top, &old, next));
	return old;
}

static void own(struct node *node)
{
	if (node && atomic_fetch_add(&node->owners, 1) != 0)
		caught("a node was popped twice");
}

static void prepare(void)
{
	atomic_store(&top, NULL);
	for (int i = 2; i >= 0; i--) {
		atomic_store(&nodes[i].owners, 0);
		push(&nodes[i]);
	}
}

static void first(void)
{
	own(pop(WINDOW_STEPS));
	own(pop(0));
}

// Keeps the second node, and puts the first one back.
static void second(void)
{
	work(PREPARATION_STEPS);
	struct node *put_back = pop(0);
	own(pop(0));
	if (put_back)
		push(put_back);
}

static void check(void)
{
}

int main(void)
{
	race(prepare, first, second, check);
	return 0;
}
