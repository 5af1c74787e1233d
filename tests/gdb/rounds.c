/* Loops that stand on one line each: going back over one takes gdb as many steps as it has
 * instructions. Some of their rounds are not like the others. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile long sum, other, handled, rare;
static jmp_buf place;

#define ROUNDS 48

static long square(long i)
{
	return i * i;
}

static long deep(long n)
{
	for (long i = 0; n > 0 && i < 3; i++) sum += deep(n - 1) + (i == 2 ? square(n) : 0);
	return n;
}

static void jump(long i)
{
	if (i % 30 == 29)
		longjmp(place, 1);
	sum += i;
}

static void on_signal(int number)
{
	for (int i = 0; i < ROUNDS; i++) handled += number;
}

static void *compute(void *argument)
{
	for (long i = 0; i < ROUNDS; i++) other += (long)argument;
	for (long i = 0; i < ROUNDS; i++) if (i % 30 == 29) getppid(); else other += square(i);
	return NULL;
}

static void plain(void)
{
	long i = 0;

	for (i = 0; i < ROUNDS; i++) sum += i * i;
	for (i = 0; i < ROUNDS; i++) sum += square(i);
	for (i = 0; i < ROUNDS; i++) sum += i % 40 == 37 ? 1 : labs(i);
	for (int j = 0; j < 5; j++) for (i = 0; i < ROUNDS / 2; i++) sum += j;
	for (int j = 0; j < 30; j++) { for (i = 0; i < 3; i++) sum += square(j); other++; }
	i = 0;
	while (i < ROUNDS) { switch (i % 5) { case 0: sum++; break; case 1: sum--; break; case 2: other++; break; case 3: sum += 2; break; default: sum += 3; } i++; }
}

static void with_others(void)
{
	pthread_t threads[2];

	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, compute, (void *)(i + 1));
	for (long i = 0; i < ROUNDS; i++) sum += i;
	for (long i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void __attribute__((noinline)) finished(void)
{
	printf("%ld %ld %ld\n", sum, other, handled);
}

int main(void)
{
	plain();
	sum += deep(4);
	for (volatile long i = 0; i < ROUNDS; i++) if (!setjmp(place)) jump(i);
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < ROUNDS; i++) if (i == 30) raise(SIGUSR1); else sum++;
	with_others();
	for (int i = 0; i < ROUNDS; i++) sum += getppid() > 0;
	for (int i = 0; i < ROUNDS; i++) rare = i / 10;
	finished();
	return 0;
}
