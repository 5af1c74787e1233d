/* What can be changed under the debugger: variables, a constant, registers, the way that
 * the program takes, where it would die, and with what it ends. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int limit = 3;
const char word[] = "round";
double scale = 1.5;
int *nowhere;

int weigh(int n)
{
	return n * 10;
}

double scaled(double value)
{
	return value * scale;
}

void show(int round, int value)
{
	printf("%s %d: %d\n", word, round, value);
out:
	fflush(stdout);
}

int count(int rounds)
{
	int sum = 0;
	for (int i = 0; i < rounds; i++)
		sum += i % 7;
	return sum;
}

int main(void)
{
	for (int round = 1; round <= limit; round++)
		show(round, weigh(round));
	printf("count %d\n", count(100000));
	fflush(stdout);
	printf("scaled %.2f\n", scaled(2));
	fflush(stdout);
	printf("read %d\n", *nowhere);
	fflush(stdout);
	syscall(SYS_exit_group, 3);
}
