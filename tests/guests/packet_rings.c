// Rings of packets behind a socket, in all three versions: the kernel writes to them at any time.
// More packets come than a ring has parts for; a child of fork sees what its parent saw. A ring is
// known by the call that asks for it, which has to be described.
// covers: socket setsockopt getsockopt mmap munmap poll unshare
// needs: root
// not-by: write-protection sums
#include "guest.h"
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { BLOCK_BYTES = 8192, BLOCKS = 4, FRAME_BYTES = 2048, ROUNDS = 24, AT_A_TIME = 3 };
enum { FRAMES = BLOCK_BYTES / FRAME_BYTES * BLOCKS };

static char *ring;
static int version, next, found;
static uint64_t seen;

// A network of its own: nobody else's packets come.
static void lonely_loopback(void)
{
	CHECK(unshare(CLONE_NEWNET) == 0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0);
	close(fd);
}

static int open_ring(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
	CHECK(fd >= 0);
	struct sockaddr_ll address = {.sll_family = AF_PACKET,
				      .sll_protocol = htons(ETH_P_IP),
				      .sll_ifindex = if_nametoindex("lo")};
	CHECK(bind(fd, (void *)&address, sizeof address) == 0);
	CHECK(setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) == 0);
	struct tpacket_req3 shape = {BLOCK_BYTES, BLOCKS, FRAME_BYTES, FRAMES, 5, 0, 0};
	socklen_t length = version == TPACKET_V3 ? sizeof shape : sizeof(struct tpacket_req);
	CHECK(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &shape, length) == 0);
	ring = mmap(NULL, BLOCK_BYTES * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(ring != MAP_FAILED);
	next = found = 0;
	return fd;
}

static void look_at(const void *packet, unsigned bytes)
{
	seen = seen * 31 + hash_bytes(packet, bytes);
	found++;
}

// Takes what is there, and gives it back.
static int take(void)
{
	if (version == TPACKET_V3) {
		struct tpacket_block_desc *block = (void *)(ring + next % BLOCKS * BLOCK_BYTES);
		if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			return 0;
		char *at = (char *)block + block->hdr.bh1.offset_to_first_pkt;
		for (unsigned i = 0; i < block->hdr.bh1.num_pkts; i++) {
			struct tpacket3_hdr *header = (void *)at;
			look_at(at + header->tp_mac, header->tp_snaplen);
			seen += header->tp_nsec;
			at += header->tp_next_offset;
		}
		__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	} else if (version == TPACKET_V2) {
		struct tpacket2_hdr *header = (void *)(ring + next % FRAMES * FRAME_BYTES);
		if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			return 0;
		look_at((char *)header + header->tp_mac, header->tp_snaplen);
		seen += header->tp_nsec;
		__atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	} else {
		struct tpacket_hdr *header = (void *)(ring + next % FRAMES * FRAME_BYTES);
		if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			return 0;
		look_at((char *)header + header->tp_mac, header->tp_snaplen);
		seen += header->tp_usec;
		__atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
	next++;
	return 1;
}

// Packets of one protocol are seen as they arrive, not as they leave.
static void exchange(int fd, int sender, int round)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int wanted = found + AT_A_TIME;
	for (int i = 0; i < AT_A_TIME; i++) {
		char text[64];
		int length = snprintf(text, sizeof text, "round %d packet %d", round, i);
		CHECK(sendto(sender, text, length, 0, (void *)&to, sizeof to) == length);
	}
	while (found < wanted) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		CHECK(poll(&wait, 1, 10000) == 1);
		while (take()) {
		}
	}
}

static void childs_view(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(hash_bytes(ring, BLOCK_BYTES) % 100);
	int status;
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK(WEXITSTATUS(status) == (int)(hash_bytes(ring, BLOCK_BYTES) % 100));
}

int main(void)
{
	lonely_loopback();
	for (version = TPACKET_V1; version <= TPACKET_V3; version++) {
		int fd = open_ring(), sender = socket(AF_INET, SOCK_DGRAM, 0);
		CHECK(sender >= 0);
		// Without one, ICMP would say so: packets more.
		int listener = socket(AF_INET, SOCK_DGRAM, 0);
		struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(9)};
		own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		CHECK(listener >= 0 && bind(listener, (void *)&own, sizeof own) == 0);
		for (int round = 0; round < ROUNDS; round++)
			exchange(fd, sender, round);
		childs_view();
		say("version %d: %d packets", version, found);
		nondet("seen %llx", (unsigned long long)seen);
		struct tpacket_stats_v3 counts;
		socklen_t length = sizeof counts;
		CHECK(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &counts, &length) == 0);
		say("dropped %u", counts.tp_drops);
		CHECK(munmap(ring, BLOCK_BYTES * BLOCKS) == 0);
		struct tpacket_req3 none = {0};
		CHECK(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &none,
				 version == TPACKET_V3 ? sizeof none : sizeof(struct tpacket_req)) == 0);
		close(fd);
		close(sender);
		close(listener);
	}
	return 0;
}
