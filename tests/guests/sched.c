// Scheduling: policies, parameters, affinity.
// covers: sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max
// covers: sched_get_priority_min sched_rr_get_interval sched_setaffinity sched_getaffinity
// covers: sched_setattr sched_getattr sched_yield ioprio_set ioprio_get
#include "guest.h"
#include <sched.h>

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t utilisation_min, utilisation_max;
};

int main(void)
{
	struct sched_param parameter = {0};
	struct timespec interval;
	struct attributes attributes = {0};
	cpu_set_t cpus;
	for (int policy = 0; policy < 6; policy++)
		say("policy %d: %d to %d", policy, sched_get_priority_min(policy),
		    sched_get_priority_max(policy));
	say("policy %d", sched_getscheduler(0));
	CHECK(sched_getparam(0, &parameter) == 0);
	say("priority %d", parameter.sched_priority);
	CHECK(sched_setparam(0, &parameter) == 0);
	CHECK(sched_rr_get_interval(0, &interval) == 0);
	nondet("interval %ld", interval.tv_nsec);
	CHECK(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0);
	nondet("attributes size %u nice %d", attributes.size, attributes.nice);
	outcome("SCHED_BATCH", sched_setscheduler(0, SCHED_BATCH, &parameter));
	say("policy %d", sched_getscheduler(0));
	CHECK(syscall(SYS_sched_setattr, 0, &attributes, 0) == 0);
	parameter.sched_priority = 1;
	outcome("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &parameter));
	parameter.sched_priority = 0;
	outcome("back", sched_setscheduler(0, SCHED_OTHER, &parameter));
	CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
	nondet("processors %d", CPU_COUNT(&cpus));
	nondet("raw size %ld", syscall(SYS_sched_getaffinity, 0, sizeof cpus, &cpus));
	CHECK(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
	CPU_ZERO(&cpus);
	CHECK_ERR(sched_setaffinity(0, sizeof cpus, &cpus), EINVAL);
	CHECK(sched_yield() == 0);
	nondet("io priority %ld", syscall(SYS_ioprio_get, 1, 0));
	outcome("ioprio_set", syscall(SYS_ioprio_set, 1, 0, (2 << 13) | 6));
	say("io priority %ld", syscall(SYS_ioprio_get, 1, 0));
	CHECK_ERR(sched_getparam(0x7ffffff, &parameter), ESRCH);
	CHECK_ERR(sched_setscheduler(0, 77, &parameter), EINVAL);
	return 0;
}
