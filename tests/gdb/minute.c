// A minute of work, at each hundredth of a second some: once, half-way, an account is paid twice.
#include <stdio.h>
#include <time.h>

#define TICKS 6000
#define ACCOUNTS 64

static long accounts[ACCOUNTS], paid;

static void pay(int account, long amount)
{
	accounts[account] += amount;
	paid += amount;
}

static void tick(int number)
{
	for (int account = 0; account < ACCOUNTS; account++)
		accounts[account] ^= number;
	for (int account = 0; account < ACCOUNTS; account++)
		accounts[account] ^= number;
	pay(number % ACCOUNTS, 1);
	if (number == 2987)
		accounts[number % ACCOUNTS]++;
}

int main(void)
{
	struct timespec hundredth = {0, 10 * 1000 * 1000}, begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int number = 0; number < TICKS; number++) {
		tick(number);
		do {
			nanosleep(&hundredth, NULL);
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while ((now.tv_sec - begin.tv_sec) * 100 + (now.tv_nsec - begin.tv_nsec) / 10000000 < number);
	}
	long sum = 0;
	for (int account = 0; account < ACCOUNTS; account++)
		sum += accounts[account];
	printf("paid %ld, and on the accounts are %ld\n", paid, sum);
	return 0;
}
