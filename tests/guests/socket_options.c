// Options of sockets, of levels and kinds that are described and of those that are not: what the kernel
// writes is the same in the replay, wherever it writes it.
// covers: getsockopt setsockopt socket
#include "guest.h"
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static unsigned sum_of(const unsigned char *bytes, size_t count)
{
	unsigned sum = 0;
	for (size_t i = 0; i < count; i++)
		sum = sum * 31 + bytes[i];
	return sum;
}

static void filter(int fd)
{
	struct sock_filter code[5], back[9];
	for (unsigned i = 0; i < 5; i++)
		code[i] = (struct sock_filter){ BPF_RET | BPF_K, 0, 0, 0x40000 + i };
	struct sock_fprog program = { 5, code };
	CHECK(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
	memset(back, 0xee, sizeof back);
	socklen_t count = 9; // of instructions, not of bytes
	CHECK(getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, back, &count) == 0);
	printf("filter of %u:", count);
	for (unsigned i = 0; i < 9; i++)
		printf(" %x", back[i].k);
	putchar('\n');
}

// Every option of every level: what it says may differ, but not from its replay.
static void all_options(int fd, const char *name)
{
	static const int levels[] = { 0, 1, 6, 17, 41, 58, 132, 136, 255, 263, 269, 270, 271, 276,
				      279, 280, 282, 284, 999 };
	unsigned sum = 0, found = 0;
	for (unsigned level = 0; level < sizeof levels / sizeof *levels; level++)
		for (int option = 0; option < 140; option++) {
			unsigned char value[512];
			memset(value, 0xee, sizeof value);
			socklen_t bytes = sizeof value / 2;
			if (getsockopt(fd, levels[level], option, value, &bytes) == 0) {
				found++;
				sum = sum * 17 + bytes;
			}
			sum = sum * 17 + sum_of(value, sizeof value);
		}
	nondet("%s: %u options, %08x", name, found, sum);
}

int main(void)
{
	int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);
	int unix_pair[2];
	CHECK(udp >= 0 && tcp >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair) == 0);
	filter(udp);
	int one = 1, value = -1;
	CHECK(setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
	socklen_t bytes = sizeof value;
	CHECK(getsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &value, &bytes) == 0);
	say("no delay: %d, %u bytes", value != 0, bytes);
	CHECK_ERR(getsockopt(tcp, 999, 1, &value, &bytes), EOPNOTSUPP);
	CHECK_ERR(setsockopt(tcp, 999, 1, &value, bytes), ENOPROTOOPT);
	all_options(udp, "udp");
	all_options(tcp, "tcp");
	all_options(unix_pair[0], "unix");
	return 0;
}
