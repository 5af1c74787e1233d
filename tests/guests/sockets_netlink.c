// Netlink: the list of interfaces, asked for raw, by getifaddrs and by ioctl; and ports of several sockets.
// covers: socket sendto recvmsg bind
#include "guest.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct sockaddr_nl name_of(int fd)
{
	struct sockaddr_nl name;
	socklen_t length = sizeof name;
	CHECK(getsockname(fd, (void *)&name, &length) == 0);
	return name;
}

// Each socket has a port of its own from its first use on, and stays in its groups.
static void several_ports(unsigned first)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK}, group = kernel, other = kernel;
	int fds[4];
	for (int i = 0; i < 4; i++) {
		CHECK((fds[i] = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE)) >= 0);
		CHECK(name_of(fds[i]).nl_pid == 0);
	}
	group.nl_groups = RTMGRP_LINK;
	CHECK(bind(fds[0], (void *)&group, sizeof group) == 0);
	CHECK(name_of(fds[0]).nl_groups == RTMGRP_LINK);
	int link_group = RTNLGRP_LINK;
	CHECK(setsockopt(fds[1], SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &link_group, sizeof link_group) == 0);
	CHECK(connect(fds[1], (void *)&kernel, sizeof kernel) == 0);
	CHECK(name_of(fds[1]).nl_groups == RTMGRP_LINK);
	struct nlmsghdr nothing = {sizeof nothing, NLMSG_NOOP, 0, 1, 0};
	CHECK(sendto(fds[2], &nothing, sizeof nothing, 0, (void *)&kernel, sizeof kernel) == sizeof nothing);
	CHECK(write(fds[3], &nothing, sizeof nothing) == sizeof nothing);
	for (int i = 0; i < 4; i++) {
		unsigned port = name_of(fds[i]).nl_pid;
		CHECK(port != 0 && port != first);
		nondet("port %u", port);
		for (int before = 0; before < i; before++)
			CHECK(port != name_of(fds[before]).nl_pid);
		// What has a port keeps it.
		CHECK_ERR(bind(fds[i], (void *)&kernel, sizeof kernel), EINVAL);
		other.nl_pid = port + 1;
		CHECK_ERR(bind(fds[i], (void *)&other, sizeof other), EINVAL);
		CHECK(name_of(fds[i]).nl_pid == port);
	}
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}

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
	several_ports(local.nl_pid);
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
