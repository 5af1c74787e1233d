// Every clock, through libc (the vDSO) and through the system call itself.
// covers: clock_gettime clock_getres clock_settime gettimeofday settimeofday time times adjtimex
// covers: clock_adjtime
#include "guest.h"
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>

int main(void)
{
	struct timespec t, last = {0, 0};
	for (int clock = 0; clock <= 11; clock++) {
		if (clock_gettime(clock, &t) == 0)
			nondet("clock %d: %ld.%09ld", clock, t.tv_sec, t.tv_nsec);
		else
			say("clock %d: %s", clock, errno_name(errno));
		if (syscall(SYS_clock_gettime, clock, &t) == 0)
			nondet("raw %d: %ld.%09ld", clock, t.tv_sec, t.tv_nsec);
		if (clock_getres(clock, &t) == 0)
			nondet("resolution %d: %ld", clock, t.tv_nsec);
	}
	uint64_t mixed = 0;
	for (int i = 0; i < 1000; i++) {
		CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
		CHECK(t.tv_sec > last.tv_sec || (t.tv_sec == last.tv_sec && t.tv_nsec >= last.tv_nsec));
		last = t;
		mixed = mixed * 31 + t.tv_nsec;
	}
	nondet("mixed %llx", (unsigned long long)mixed);
	struct timeval tv;
	struct timezone tz = {77, 77};
	CHECK(gettimeofday(&tv, &tz) == 0);
	nondet("gettimeofday %ld.%06ld zone %d", tv.tv_sec, tv.tv_usec, tz.tz_minuteswest);
	CHECK(syscall(SYS_gettimeofday, &tv, NULL) == 0);
	nondet("raw %ld.%06ld", tv.tv_sec, tv.tv_usec);
	time_t seconds;
	CHECK(time(&seconds) == seconds && seconds > 1600000000);
	nondet("time %ld raw %ld", seconds, syscall(SYS_time, NULL));
	struct tms tms;
	nondet("times %ld user %ld", (long)times(&tms), (long)tms.tms_utime);
	nondet("clock() %ld", (long)clock());
	clockid_t own;
	CHECK(clock_getcpuclockid(getpid(), &own) == 0 && clock_gettime(own, &t) == 0);
	nondet("own processor time %ld", t.tv_nsec);
	struct timex x = {.modes = 0};
	nondet("adjtimex %ld frequency %ld", syscall(SYS_adjtimex, &x), x.freq);
	x = (struct timex){.modes = 0};
	nondet("clock_adjtime %d", clock_adjtime(CLOCK_REALTIME, &x));
	// Setting clocks is tried only in ways that the kernel refuses.
	t = (struct timespec){-1, -1};
	outcome("clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &t));
	CHECK_ERR(clock_settime(CLOCK_MONOTONIC, &t), EINVAL);
	tv = (struct timeval){-1, -1};
	outcome("settimeofday", syscall(SYS_settimeofday, &tv, NULL));
	CHECK_ERR(clock_gettime(CLOCK_REALTIME + 999, &t), EINVAL);
	// Only this one has to be told where.
	CHECK_ERR(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, NULL), EFAULT);
	CHECK(syscall(SYS_clock_getres, CLOCK_MONOTONIC, NULL) == 0);
	CHECK(syscall(SYS_gettimeofday, NULL, NULL) == 0 && syscall(SYS_time, NULL) > 0);
	CHECK_ERR(syscall(SYS_clock_gettime, CLOCK_REALTIME, BAD), EFAULT);
	return 0;
}
