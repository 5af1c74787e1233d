// Netlink: the list of interfaces, asked for raw, by getifaddrs and by ioctl.
// covers: socket sendto recvmsg bind
#include "guest.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	CHECK(fd >= 0);
	struct sockaddr_nl local = {.nl_family = AF_NETLINK};
	socklen_t length = sizeof local;
	CHECK(bind(fd, (void *)&local, sizeof local) == 0);
	CHECK(getsockname(fd, (void *)&local, &length) == 0);
	nondet("port id %u", local.nl_pid);
	struct {
		struct nlmsghdr header;
		struct ifinfomsg info;
	} request = {
		{sizeof request, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0},
		{.ifi_family = AF_UNSPEC},
	};
	CHECK(send(fd, &request, sizeof request, 0) == sizeof request);
	static char answer[65536];
	int links = 0, loopback = 0;
	for (int done = 0; !done;) {
		struct iovec vector = {answer, sizeof answer};
		struct sockaddr_nl from;
		struct msghdr message = {&from, sizeof from, &vector, 1, NULL, 0, 0};
		ssize_t got = recvmsg(fd, &message, 0);
		CHECK(got > 0);
		nondet("answer of %zd bytes hash %llx", got,
		       (unsigned long long)hash_bytes(answer, got));
		for (struct nlmsghdr *h = (void *)answer; NLMSG_OK(h, got); h = NLMSG_NEXT(h, got)) {
			if (h->nlmsg_type == NLMSG_DONE)
				done = 1;
			if (h->nlmsg_type == RTM_NEWLINK) {
				struct ifinfomsg *info = NLMSG_DATA(h);
				links++;
				loopback += (info->ifi_flags & IFF_LOOPBACK) != 0;
			}
		}
	}
	nondet("links %d", links);
	say("loopback interfaces %d", loopback);
	struct ifaddrs *list, *at;
	CHECK(getifaddrs(&list) == 0);
	for (at = list; at; at = at->ifa_next)
		nondet("interface %s flags %x", at->ifa_name, at->ifa_flags);
	freeifaddrs(list);
	say("lo has index %u", if_nametoindex("lo"));
	struct ifreq wanted = {0};
	strcpy(wanted.ifr_name, "lo");
	CHECK(ioctl(fd, SIOCGIFMTU, &wanted) == 0 || errno == EOPNOTSUPP || errno == ENOTTY);
	int inet = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(ioctl(inet, SIOCGIFMTU, &wanted) == 0);
	nondet("mtu %d", wanted.ifr_mtu);
	char space[2048];
	struct ifconf interfaces = {.ifc_len = sizeof space, .ifc_buf = space};
	CHECK(ioctl(inet, SIOCGIFCONF, &interfaces) == 0);
	nondet("SIOCGIFCONF %d bytes", interfaces.ifc_len);
	for (size_t i = 0; i < interfaces.ifc_len / sizeof(struct ifreq); i++) {
		struct sockaddr_in address;
		memcpy(&address, &interfaces.ifc_req[i].ifr_addr, sizeof address);
		nondet("interface %s has %s", interfaces.ifc_req[i].ifr_name, inet_ntoa(address.sin_addr));
	}
	// Without a buffer it says how long one would have to be, and with a short one what fits.
	struct ifconf question = {0};
	CHECK(ioctl(inet, SIOCGIFCONF, &question) == 0);
	CHECK(question.ifc_len == interfaces.ifc_len);
	memset(space, 0x55, sizeof space);
	interfaces.ifc_len = sizeof(struct ifreq) - 1;
	CHECK(ioctl(inet, SIOCGIFCONF, &interfaces) == 0);
	CHECK(interfaces.ifc_len == 0 && space[0] == 0x55);
	CHECK_ERR(ioctl(inet, SIOCGIFMEM, &wanted), ENOTTY);
	CHECK_ERR(ioctl(inet, SIOCGIFENCAP, &wanted), ENOTTY);
	return 0;
}
