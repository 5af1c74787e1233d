// Calls that fail may have written before they did.
// covers: socketpair getsockopt sched_setattr
#include "guest.h"
#include <linux/sched/types.h>
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
	return 0;
}
