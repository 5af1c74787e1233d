// What the kernel takes as a filter, and what it makes of it: every instruction with operands
// at its limits, programs by chance, and calls with wrong arguments.
// covers: seccomp
#include "filters.h"
#include <sys/mman.h>

static uint64_t sum = 1469598103934665603u;

static void note(long value)
{
	sum = (sum ^ (uint64_t)value) * 1099511628211u;
}

// In a child, as a filter stays: bits of which operands are accepted.
static int accepted(const struct sock_filter *filter, int count)
{
	struct sock_fprog program = {.len = count, .filter = (struct sock_filter *)filter};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
}

// They stand where no call comes to. A child for some, as filters add up.
static void every_instruction(void)
{
	static const unsigned operands[] = {0, 1, 2, 3, 4, 15, 16, 31, 32, 60, 61, 64, 0xfffff000};
	for (unsigned first = 0; first < 0x200; first += 0x40) {
		pid_t child = fork();
		if (child != 0) {
			reap("instructions", child);
			continue;
		}
		int good = 0;
		for (unsigned code = first; code < first + 0x40; code++) {
			for (unsigned index = 0; index < sizeof operands / sizeof *operands; index++) {
				struct sock_filter filter[] = {RETURN(SECCOMP_RET_ALLOW), {code, 1, 2, operands[index]},
				                               {0, 0, 0, 0}, {0, 0, 0, 0}, RETURN(SECCOMP_RET_ALLOW)};
				int error = accepted(filter, 5);
				good += error == 0;
				note(code * 100 + index);
				note(error);
			}
		}
		say("from %x: %d accepted, %016lx", first, good, sum);
		_exit(0);
	}
}

static unsigned seed = 12345;

static unsigned draw(unsigned below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % below;
}

// Programs that compute with what they find, and return an error from it.
static void by_chance(void)
{
	static const unsigned short codes[] = {
		0x00, 0x01, 0x02, 0x03, 0x60, 0x61, 0x80, 0x81, 0x20, 0x20, 0x04, 0x0c, 0x14, 0x1c, 0x24,
		0x2c, 0x34, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x84, 0xa4, 0xac, 0x05, 0x15,
		0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d, 0x07, 0x87};
	int good = 0;
	for (int round = 0; round < 400; round++) {
		struct sock_filter filter[40] = {DATA(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RARE, 1, 0),
		                                 RETURN(SECCOMP_RET_ALLOW)};
		int count = 3 + (int)draw(30);
		for (int at = 3; at < count; at++) {
			unsigned short code = codes[draw(sizeof codes / sizeof *codes)];
			unsigned operand = code == 0x20 ? 4 * draw(16) : (code & 7) == 2 || (code & 7) == 3 ||
			                   (code & 0x67) == 0x60 || (code & 0x67) == 0x61 ? draw(3) : draw(40);
			// The address behind the call is another one in each run.
			if (code == 0x20 && (operand == 8 || operand == 12))
				operand = 16;
			filter[at] = (struct sock_filter){code, draw(3), draw(3), operand};
		}
		filter[count++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff);
		filter[count++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO);
		filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
		int ends[2];
		CHECK(pipe(ends) == 0);
		pid_t child = fork();
		if (child == 0) {
			int results[3] = {accepted(filter, count), 0, 0};
			if (results[0] == 0) {
				results[1] = syscall(RARE, 1, 2, 3, 4, 5, 6) < 0 ? errno : -1;
				results[2] = syscall(RARE, -1, 1ul << 40, 33, 0x80000000, 7, 12) < 0 ? errno : -1;
			}
			CHECK(write(ends[1], results, sizeof results) == sizeof results);
			_exit(0);
		}
		int results[3] = {0}, status;
		close(ends[1]);
		ssize_t bytes = read(ends[0], results, sizeof results);
		close(ends[0]);
		CHECK(waitpid(child, &status, 0) == child);
		// Killed by a division.
		note(bytes);
		note(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
		for (int index = 0; index < 3; index++)
			note(results[index]);
		good += bytes == sizeof results && results[0] == 0;
	}
	say("by chance: %d accepted, %016lx", good, sum);
}

static void wrong_calls(void)
{
	struct sock_filter allow[] = {RETURN(SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {.len = 1, .filter = allow};
	long set = SECCOMP_SET_MODE_FILTER;
	CHECK_ERR(syscall(SYS_seccomp, set, 0, NULL), EFAULT);
	CHECK_ERR(syscall(SYS_seccomp, set, 0, BAD), EFAULT);
	CHECK_ERR(syscall(SYS_seccomp, set, SECCOMP_FILTER_FLAG_TSYNC, NULL), EFAULT);
	CHECK_ERR(syscall(SYS_seccomp, set, SECCOMP_FILTER_FLAG_LOG, NULL), EFAULT);
	CHECK_ERR(syscall(SYS_seccomp, set, SECCOMP_FILTER_FLAG_SPEC_ALLOW, NULL), EFAULT);
	CHECK_ERR(syscall(SYS_seccomp, set, SECCOMP_FILTER_FLAG_TSYNC_ESRCH, NULL), EFAULT);
	CHECK_ERR(syscall(SYS_seccomp, set, 0x100, &program), EINVAL);
	CHECK_ERR(syscall(SYS_seccomp, set, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program), EINVAL);
	CHECK_ERR(syscall(SYS_seccomp, 9, 0, NULL), EINVAL);
	CHECK_ERR(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL), EINVAL);
	CHECK_ERR(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, &program), EINVAL);
	program.len = 0;
	CHECK_ERR(syscall(SYS_seccomp, set, 0, &program), EINVAL);
	program.len = 4097;
	CHECK_ERR(syscall(SYS_seccomp, set, 0, &program), EINVAL);
	program = (struct sock_fprog){.len = 1};
	CHECK_ERR(syscall(SYS_seccomp, set, 0, &program), EINVAL);
	program.filter = BAD;
	CHECK_ERR(syscall(SYS_seccomp, set, 0, &program), EFAULT);
	CHECK_ERR(prctl(PR_SET_SECCOMP, 3, NULL), EINVAL);
	CHECK_ERR(prctl(PR_SET_SECCOMP, 0, NULL), EINVAL);
	CHECK_ERR(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL), EFAULT);
	static const unsigned actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
	                                   SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO, SECCOMP_RET_TRACE,
	                                   SECCOMP_RET_LOG, SECCOMP_RET_ALLOW};
	for (unsigned index = 0; index < sizeof actions / sizeof *actions; index++)
		CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[index]) == 0);
	unsigned unknown = 0x00010000;
	CHECK_ERR(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &unknown), EOPNOTSUPP);
	CHECK_ERR(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 1, &unknown), EINVAL);
	CHECK_ERR(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, BAD), EFAULT);
	struct seccomp_notif_sizes sizes = {0};
	CHECK(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0);
	nondet("sizes %u %u %u", sizes.seccomp_notif, sizes.seccomp_notif_resp, sizes.seccomp_data);
	CHECK_ERR(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, BAD), EFAULT);
	say("wrong calls");
}

// The kernel counts the instructions that it makes of them, so not all fit that seem to.
static void too_many(void)
{
	static struct sock_filter filter[4096];
	for (int at = 0; at < 4095; at++)
		filter[at] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, 0);
	filter[4095] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	int count = 0;
	while (count < 20 && set_filter(0, filter, 4096) == 0)
		count++;
	say("too many: %d %s", count, errno_name(errno));
}

int main(void)
{
	pid_t child = fork();
	if (child == 0) {
		// Without rights and without the promise.
		if (geteuid() == 0)
			CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
		struct sock_filter allow[] = {RETURN(SECCOMP_RET_ALLOW)};
		CHECK_ERR(set_filter(0, allow, 1), EACCES);
		CHECK_ERR(set_filter(0, NULL, 1), EACCES);
		CHECK_ERR(set_filter(0, allow, 0), EINVAL);
		_exit(0);
	}
	reap("without rights", child);
	gain_nothing();
	wrong_calls();
	void (*parts[])(void) = {every_instruction, by_chance, too_many};
	for (int part = 0; part < 3; part++) {
		child = fork();
		if (child == 0) {
			parts[part]();
			_exit(0);
		}
		reap("part", child);
	}
	return 0;
}
