// Operations that ask for the time, and computations that take some.
#include "random.h"
#include <cpuid.h>
#include <math.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <x86intrin.h>

OPERATION void time_read(struct self *me)
{
	struct timespec now;
	static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
					   CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME, CLOCK_TAI};
	for (long i = below(me, 12); i > 0; i--) {
		fold_result(me, clock_gettime(clocks[below(me, 8)], &now));
		fold_value(me, now.tv_nsec);
	}
	struct timeval day;
	gettimeofday(&day, NULL);
	fold_value(me, day.tv_usec);
	fold_value(me, time(NULL));
	unsigned processor;
	fold_value(me, (long)__rdtsc());
	fold_value(me, (long)__rdtscp(&processor));
	fold_value(me, processor);
}

OPERATION void time_of_processor(struct self *me)
{
	unsigned a = 0, b = 0, c = 0, d = 0;
	__get_cpuid_count((unsigned)below(me, 8), 0, &a, &b, &c, &d);
	fold_value(me, a ^ b);
	fold_value(me, c ^ d);
	struct utsname system;
	uname(&system);
	fold(me, system.release, strlen(system.release));
	struct sysinfo machine;
	sysinfo(&machine);
	fold_value(me, machine.uptime);
	fold_value(me, (long)machine.freeram);
}

OPERATION void time_asleep(struct self *me)
{
	struct timespec nap = microseconds(below(me, 400)), rest = {0, 0};
	if (below(me, 2)) {
		fold_result(me, nanosleep(&nap, &rest));
	} else {
		struct timespec when;
		clock_gettime(CLOCK_MONOTONIC, &when);
		when.tv_nsec += 1000;
		fold_value(me, clock_nanosleep(CLOCK_MONOTONIC, when.tv_nsec < 1000000000 ? TIMER_ABSTIME : 0, when.tv_nsec < 1000000000 ? &when : &nap, &rest));
	}
	fold_value(me, rest.tv_nsec);
}

static int compare(const void *a, const void *b)
{
	long left = *(const long *)a, right = *(const long *)b;
	return (left > right) - (left < right);
}

OPERATION void time_computed(struct self *me)
{
	long numbers[300];
	for (int i = 0; i < 300; i++)
		numbers[i] = (long)draw(me) >> below(me, 60);
	qsort(numbers, 300, sizeof *numbers, compare);
	fold(me, numbers, sizeof numbers);
	double sum = 0;
	for (long i = below(me, 100000); i > 0; i--)
		sum += sqrt((double)i) / (double)(i + 3);
	fold(me, &sum, sizeof sum);
	volatile long counter = 0;
	for (long i = below(me, 300000); i > 0; i--)
		counter += i & 3;
	fold_value(me, counter);
	long double precise = 1;
	for (long i = below(me, 2000); i > 0; i--)
		precise = precise * 1.0001L + 1.0L / (long double)i;
	double rounded = (double)precise;
	fold(me, &rounded, sizeof rounded);
}
