// Two threads add to a balance without a lock: an update between load and store is lost.
#include "race.h"

static volatile long balance;

// Computing the interest takes its time between the load and the store.
static void add(long amount)
{
	long before = balance;
	work(WINDOW_STEPS);
	balance = before + amount;
}

static void prepare(void)
{
	balance = 0;
}

static void first(void)
{
	add(1);
}

static void second(void)
{
	work(PREPARATION_STEPS);
	add(10);
}

static void check(void)
{
	if (balance != 11)
		caught("an update of the balance was lost");
}

int main(void)
{
	race(prepare, first, second, check);
	return 0;
}
