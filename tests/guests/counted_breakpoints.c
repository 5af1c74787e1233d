// A breakpoint of the processor that counts is recorded. One that stops the program by a synchronous
// signal may be refused, as by a kernel that is older; where it is not, each access has its signal.
// covers: perf_event_open read ioctl
#include "guest.h"
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

static volatile int word, signals;

static void stopped(int number)
{
	(void)number;
	signals++;
}

static long watch(int with_signal)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof event,
		.sample_period = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)&word,
		.bp_len = HW_BREAKPOINT_LEN_4,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.remove_on_exec = with_signal,
		.sigtrap = with_signal,
	};
	return syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(void)
{
	signal(SIGTRAP, stopped);
	long counter = nondet_outcome("a counter", watch(0));
	for (int i = 0; i < 5; i++)
		word = i;
	if (counter >= 0) {
		uint64_t count;
		CHECK(read(counter, &count, sizeof count) == sizeof count && count == 5);
		CHECK(close(counter) == 0);
	}
	long trap = nondet_outcome("with a signal", watch(1));
	for (int i = 0; i < 5; i++)
		word = i;
	if (trap >= 0)
		CHECK(ioctl(trap, PERF_EVENT_IOC_DISABLE, 0) == 0);
	CHECK(signals == (trap >= 0 ? 5 : 0));
	say("the word is %d", word);
	return 0;
}
