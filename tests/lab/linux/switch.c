// A link between two network namespaces, by two TUN devices: rate, delay, loss and a queue as lab.toml means them.
//
//     switch BITS_PER_SECOND DELAY_NS LOSS QUEUE_BYTES SEED RECEIVER SENDER
//
// RECEIVER runs at 10.0.0.1, SENDER at 10.0.0.2, each by a shell in a namespace of its own. It ends when the sender
// has, with its status. The kernel's stack hands over packets of 1500 bytes at most: a TUN device without
// IFF_VNET_HDR and IFF_NAPI has neither segmentation offload nor GRO.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_BYTES_MAX = 2048, FLIGHTS_MAX = 1 << 15, ETHERNET_BYTES = 14, DEVICE_QUEUE = 10000 };

struct flight {
    uint64_t arrives_ns;
    int bytes;
    char data[PACKET_BYTES_MAX];
};
struct direction {
    int from, to;
    uint64_t free_at_ns;
    unsigned first, count;
    struct flight *flights;
};

static uint64_t rate, delay_ns, queue_bytes, state[4];
static double loss;

static void fail(const char *what) {
    perror(what);
    exit(125);
}

// xoshiro256**, seeded by splitmix64: what a lab draws, too.
static uint64_t rotated(uint64_t word, int by) { return word << by | word >> (64 - by); }

static void seed_chance(uint64_t word) {
    for (int i = 0; i < 4; i++) {
        word += 0x9e3779b97f4a7c15;
        uint64_t mixed = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
        state[i] = mixed ^ mixed >> 31;
    }
}

static int happens(double probability) {
    if (probability <= 0) return 0;
    uint64_t result = rotated(state[1] * 5, 7) * 9, shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotated(state[3], 45);
    return (double)(result >> 11) < probability * (double)(1ull << 53);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static uint64_t serialised_ns(uint64_t bytes) { return rate ? bytes * 8000000000ull / rate : 0; }

// A namespace of its own, which this process is in from now on, and the device in it.
static int device(const char *address) {
    if (unshare(CLONE_NEWNET)) fail("unshare");
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq request = {.ifr_name = "lab0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request)) fail("/dev/net/tun");
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in *at = (void *)&request.ifr_addr;
    at->sin_family = AF_INET;
    inet_pton(AF_INET, address, &at->sin_addr);
    if (ioctl(any, SIOCSIFADDR, &request)) fail("address");
    inet_pton(AF_INET, "255.255.255.0", &at->sin_addr);
    if (ioctl(any, SIOCSIFNETMASK, &request)) fail("netmask");
    request.ifr_qlen = DEVICE_QUEUE;
    if (ioctl(any, SIOCSIFTXQLEN, &request)) fail("device's queue");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(any, SIOCSIFFLAGS, &request)) fail("up");
    close(any);
    return tun;
}

static pid_t program(const char *command) {
    pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/bin/sh", "sh", "-c", command, NULL);
    fail("sh");
    return 0;
}

// Takes what the stack sends; what is not dropped or lost is on its way.
static void take(struct direction *way) {
    static char data[PACKET_BYTES_MAX];
    for (;;) {
        int bytes = read(way->from, data, sizeof data);
        if (bytes <= 0) return;
        // Router solicitations and the like are not the comparison's.
        if ((data[0] & 0xf0) != 0x40) continue;
        uint64_t now = now_ns(), begins = way->free_at_ns > now ? way->free_at_ns : now;
        uint64_t takes_ns = serialised_ns(bytes + ETHERNET_BYTES), queued_ns = begins - now;
        if (queue_bytes && queued_ns && queued_ns + takes_ns > serialised_ns(queue_bytes)) continue;
        way->free_at_ns = begins + takes_ns;
        if (happens(loss) || way->count == FLIGHTS_MAX) continue;
        struct flight *flight = &way->flights[(way->first + way->count++) % FLIGHTS_MAX];
        flight->arrives_ns = begins + takes_ns + delay_ns;
        flight->bytes = bytes;
        memcpy(flight->data, data, bytes);
    }
}

// Hands over what has arrived; gives when the next one does.
static uint64_t give(struct direction *way) {
    while (way->count && way->flights[way->first].arrives_ns <= now_ns()) {
        struct flight *flight = &way->flights[way->first];
        if (write(way->to, flight->data, flight->bytes) < 0 && errno != EAGAIN) fail("write");
        way->first = (way->first + 1) % FLIGHTS_MAX;
        way->count--;
    }
    return way->count ? way->flights[way->first].arrives_ns : UINT64_MAX;
}

int main(int argc, char **argv) {
    if (argc != 8) return 125;
    rate = strtoull(argv[1], 0, 10), delay_ns = strtoull(argv[2], 0, 10), loss = atof(argv[3]);
    queue_bytes = strtoull(argv[4], 0, 10);
    seed_chance(strtoull(argv[5], 0, 10));
    if (geteuid() && unshare(CLONE_NEWUSER)) fail("unshare(CLONE_NEWUSER)");
    int one = device("10.0.0.1");
    pid_t receiver = program(argv[6]);
    int other = device("10.0.0.2");
    pid_t sender = program(argv[7]);
    struct direction ways[2] = {{.from = one, .to = other}, {.from = other, .to = one}};
    for (int i = 0; i < 2; i++) ways[i].flights = calloc(FLIGHTS_MAX, sizeof *ways[i].flights);
    prctl(PR_SET_TIMERSLACK, 1);
    // Where it is allowed: what the link does is not to wait for the processor.
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 10});
    int status = 0;
    uint64_t looks_ns = 0;
    for (;;) {
        uint64_t next = give(&ways[0]), then = give(&ways[1]), now = now_ns();
        if (now > looks_ns) {
            if (waitpid(sender, &status, WNOHANG) == sender) break;
            looks_ns = now + 20000000;
        }
        if (then < next) next = then;
        if (looks_ns < next) next = looks_ns;
        struct pollfd both[2] = {{one, POLLIN, 0}, {other, POLLIN, 0}};
        uint64_t wait_ns = next > now ? next - now : 0;
        struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
        if (ppoll(both, 2, &wait, NULL) > 0)
            for (int i = 0; i < 2; i++)
                if (both[i].revents) take(&ways[i]);
    }
    kill(receiver, SIGKILL);
    waitpid(receiver, NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
