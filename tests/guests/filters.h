// Seccomp filters: what every guest of them shares.
#ifndef FILTERS_H
#define FILTERS_H
#include "guest.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define DATA(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
// Of one call: this value. For the accumulator with the number in it.
#define FOR(number, value)                                                                 \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), RETURN(value)
#define ERROR(number) (SECCOMP_RET_ERRNO | (number))
// A call that no guest makes otherwise.
#define RARE SYS_getpgid

GUEST_FN long set_filter(unsigned flags, const struct sock_filter *filter, unsigned count)
{
	struct sock_fprog program = {.len = count, .filter = (struct sock_filter *)filter};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

// Installs a filter of these instructions.
#define FILTER(flags, ...)                                                                 \
	({                                                                                 \
		struct sock_filter instructions[] = {__VA_ARGS__};                         \
		set_filter(flags, instructions, sizeof instructions / sizeof *instructions); \
	})

GUEST_FN void gain_nothing(void)
{
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}
#endif
