// getsockopt that succeeds and has nothing to say writes nothing: the memory for the answer need not
// be there, nor all that its length promises.
// covers: getsockopt
#include "guest.h"
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>

static void ask(const char *name, int fd, int level, int option, void *answer, socklen_t bytes)
{
	outcome(name, getsockopt(fd, level, option, answer, &bytes));
	say("%s: %u bytes", name, bytes);
}

int main(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
	int inet = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(inet >= 0);
	ask("bound to no device", inet, SOL_SOCKET, SO_BINDTODEVICE, BAD, 100);
	ask("a short answer", inet, IPPROTO_TCP, TCP_NODELAY, pages + 4092, 4096);
	ask("no memory", inet, IPPROTO_TCP, TCP_NODELAY, pages + 4096, 4);
	int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	CHECK(netlink >= 0);
	ask("in no group", netlink, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, BAD, 64);
	ask("no memory, in no group", netlink, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, pages + 4096, 3);
	say("the page ends with %d", pages[4095]);
	return 0;
}
