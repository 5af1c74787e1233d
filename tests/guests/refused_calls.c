// Calls that a recorder may refuse, so that programs fall back: whatever the answer, the
// program goes on, and the replay answers the same.
// covers: io_uring_setup io_uring_enter io_uring_register userfaultfd perf_event_open bpf ptrace
// covers: seccomp vhangup
#include "guest.h"
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

int main(void)
{
	char parameters[256] = {0};
	long ring = nondet_outcome("io_uring_setup", syscall(425, 4, parameters));
	nondet_outcome("io_uring_enter", syscall(426, ring, 0, 0, 0, NULL, 0));
	nondet_outcome("io_uring_register", syscall(427, ring, 0, NULL, 0));
	nondet_outcome("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC | 1));
	struct perf_event_attr event = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .config = PERF_COUNT_SW_TASK_CLOCK};
	nondet_outcome("perf_event_open", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
	union bpf_attr bpf = {.map_type = BPF_MAP_TYPE_ARRAY};
	nondet_outcome("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &bpf, sizeof bpf));
	nondet_outcome("seccomp", syscall(SYS_seccomp, 2, 0, &(uint32_t){0x7fff0000}));
	nondet_outcome("strict mode asked", prctl(PR_GET_SECCOMP));
	pid_t child = fork();
	if (child == 0) {
		setsid(); // vhangup then has no terminal to hang up.
		nondet_outcome("vhangup", syscall(SYS_vhangup));
		_exit(0);
	}
	reap("hung up", child);
	child = fork();
	if (child == 0) {
		// If it may, it leaves the recording.
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 5 : 6);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	nondet("traced child: %x", status);
	nondet_outcome("PTRACE_ATTACH to nobody", ptrace(PTRACE_ATTACH, 0x7ffffff, NULL, NULL));
	say("went on");
	return 0;
}
