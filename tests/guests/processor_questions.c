// arch_prctl's questions: whether cpuid traps, what of the processor's state may be used, and which
// bits of an address count.
// covers: arch_prctl
#include "guest.h"
#include <asm/prctl.h>

#define GET_STATE_SUPPORTED 0x1021
#define GET_STATE_PERMITTED 0x1022
#define REQUEST_STATE 0x1023
#define GET_GUEST_STATE_PERMITTED 0x1024
#define GET_UNTAG_MASK 0x4001
#define GET_MAX_TAG_BITS 0x4003
#define TILE_DATA 18

static void ask(const char *name, long option)
{
	unsigned long answer = 0xdead;
	outcome(name, syscall(SYS_arch_prctl, option, &answer));
	say("%s: %lx", name, answer);
	outcome(name, syscall(SYS_arch_prctl, option, BAD));
}

int main(void)
{
	say("cpuid works: %ld", syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0));
	ask("state that is there", GET_STATE_SUPPORTED);
	ask("state that is permitted", GET_STATE_PERMITTED);
	ask("state that is permitted to guests", GET_GUEST_STATE_PERMITTED);
	ask("bits of an address", GET_UNTAG_MASK);
	ask("most bits of a tag", GET_MAX_TAG_BITS);
	// The kernel takes an int.
	say("cpuid works: %ld", syscall(SYS_arch_prctl, 0x700000000 | ARCH_GET_CPUID, 0));
	// Refused where the tiles exist, too.
	nondet_outcome("tiles", syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA));
	CHECK_ERR(syscall(SYS_arch_prctl, 0x7777, 0), EINVAL);
	return 0;
}
