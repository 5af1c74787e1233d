// Calls that fail may have written before they did.
// covers: socketpair getsockopt sched_setattr timer_create get_mempolicy name_to_handle_at
#include "guest.h"
#include <linux/sched/types.h>
#include <sys/mman.h>
#include <time.h>
#include <sys/socket.h>

int main(void)
{
	int ends[2] = {-1, -1};
	CHECK_ERR(socketpair(hidden(-1), SOCK_STREAM, 0, ends), EAFNOSUPPORT);
	say("family: %d", ends[0] == -1 || ends[1] == ends[0] + 1);
	int seen[2] = {ends[0], ends[1]};
	ends[0] = ends[1] = -2;
	CHECK_ERR(socketpair(AF_UNIX, SOCK_STREAM, hidden(-1), ends), EPROTONOSUPPORT);
	say("protocol: %d %d", ends[0], ends[1]);
	say("the same as before: %d", seen[0] == -1 || !memcmp(seen, ends, sizeof ends));
	ends[0] = ends[1] = -3;
	CHECK_ERR(socketpair(AF_UNIX, hidden(0xf000), 0, ends), EINVAL);
	say("type: %d %d", ends[0], ends[1]);
	CHECK_ERR(socketpair(AF_UNIX, SOCK_STREAM, hidden(-1), BAD), EFAULT);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	char groups[4];
	socklen_t length = 1;
	outcome("groups of the peer", getsockopt(ends[0], SOL_SOCKET, SO_PEERGROUPS, groups, &length));
	say("that long: %u", length);

	struct {
		uint32_t size;
		char rest[124];
	} attributes = {sizeof attributes, {[100] = 1}};
	CHECK_ERR(syscall(SYS_sched_setattr, 0, &attributes, 0), E2BIG);
	say("size known: %u", attributes.size);

	int timer = -4, policy = -5;
	// The processor time of a process that there is not.
	CHECK_ERR(syscall(SYS_timer_create, hidden(~4194303 * 8 + 2), NULL, &timer), EINVAL);
	say("timer is as it was: %d", timer == -4);
	char *page = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
	outcome("policy with a long mask", syscall(SYS_get_mempolicy, &policy, page, hidden(1 << 20), NULL, 0));
	say("policy: %d", policy);
	// Of what they may write, only as much is there as they do write.
	uint32_t *handle = (uint32_t *)(page + 4096) - 2;
	*handle = 0;
	outcome("handle", syscall(SYS_name_to_handle_at, AT_FDCWD, "/", handle, (int *)page, 0));
	say("handle: %u", *handle);
	return 0;
}
