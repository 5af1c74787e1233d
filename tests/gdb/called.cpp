// Lines whose calls end in all kinds of ways: over each of them one goes back as over any line.
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

static volatile long sum;
static std::jmp_buf place;

__attribute__((noinline)) static long fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__attribute__((noinline)) static int throws(int depth)
{
	std::string local(depth + 20, 'x');
	if (depth == 0)
		throw std::runtime_error(local);
	return throws(depth - 1) + (int)local.size();
}

__attribute__((noinline)) static long last(long value)
{
	sum += value;
	return sum;
}

// At -O2 a jump is its end.
__attribute__((noinline)) static long jumps(long value)
{
	return last(value + 1);
}

__attribute__((noinline)) static void leaves(int depth)
{
	if (depth == 0)
		std::longjmp(place, 1);
	leaves(depth - 1);
	sum++;
}

__attribute__((noinline)) static long many(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	char *room = (char *)alloca(a + 16);
	std::memset(room, (int)b, a + 16);
	return room[0] + c + d + e + f + g + h + i;
}

__attribute__((noinline)) static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void on_signal(int)
{
	sum += 5;
}

static void caught(int depth)
{
	try {
		sum += throws(depth);
	} catch (std::exception &thrown) {
		sum += std::strlen(thrown.what());
	}
}

extern "C" __attribute__((noinline)) void finished()
{
	asm volatile("");
}

int main()
{
	int numbers[] = {5, 3, 9, 1, 7, 2, 8};
	std::signal(SIGUSR1, on_signal);
	sum = fibonacci(18);
	sum += jumps(3);
	caught(4);
	try {
		sum += throws(2);
	} catch (std::exception &thrown) {
		sum++;
	}
	if (setjmp(place) == 0)
		leaves(3);
	sum += many(1, 2, 3, 4, 5, 6, 7, 8, 9);
	std::qsort(numbers, 7, sizeof numbers[0], by_number);
	std::raise(SIGUSR1);
	std::printf("%ld %d\n", sum, numbers[0]);
	finished();
	return 0;
}
