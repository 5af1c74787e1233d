// Objects of the kernel's that a program closed since are open again, under their numbers: events,
// timers, signals, watches, and the sets of epoll that wait for them, also where their numbers were
// taken by others. What was read of them comes again.
// prints: as it was 0
// prints: as it was 1
// prints: as it was 2
// prints: as it was 3
#include "live.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static int events, timer, signals, watches, set, files[2];

static void make(void)
{
	sigset_t wanted;
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &wanted, NULL) == 0);
	events = eventfd(5, EFD_NONBLOCK);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	signals = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
	watches = inotify_init1(IN_NONBLOCK);
	set = epoll_create1(0);
	CHECK(pipe(files) == 0);
	CHECK(inotify_add_watch(watches, ".", IN_CREATE) >= 0);
	int all[] = {events, timer, signals, watches, files[0]};
	for (int i = 0; i < 5; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)all[i] << 32 | 7};
		CHECK(all[i] >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, all[i], &event) == 0);
	}
}

// True if the set says that there is something to be read.
static int is_ready(int fd)
{
	struct epoll_event found[8];
	int count = epoll_wait(set, found, 8, 0), ready = 0;
	CHECK(count >= 0);
	for (int i = 0; i < count; i++)
		ready |= found[i].data.u64 == ((uint64_t)fd << 32 | 7);
	return ready;
}

// What was read of the pipe and of the watches since comes again, so that they are ready then.
static void check(int round)
{
	uint64_t count;
	CHECK(is_ready(events) && is_ready(signals));
	CHECK(is_ready(watches) == (round != 0) && is_ready(files[0]) == (round != 0));
	CHECK(read(events, &count, sizeof count) == sizeof count && count == 5);
	CHECK(read(events, &count, sizeof count) == -1 && errno == EAGAIN);
	struct signalfd_siginfo info;
	CHECK(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
	CHECK(fcntl(signals, F_GETFD) == FD_CLOEXEC && fcntl(events, F_GETFD) == 0);
	struct itimerspec left;
	CHECK(timerfd_gettime(timer, &left) == 0 && left.it_value.tv_sec > 3000 && left.it_interval.tv_sec == 9);
	CHECK(read(timer, &count, sizeof count) == -1 && errno == EAGAIN);
	CHECK(write(files[1], "x", 1) == 1 && is_ready(files[0]));
	char byte;
	CHECK(read(files[0], &byte, 1) == 1);
	int made = open("made", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	CHECK(made >= 0 && unlink("made") == 0 && is_ready(watches));
	char text[4096];
	CHECK(read(watches, text, sizeof text) > 0 && close(made) == 0);
}

int main(void)
{
	need_session();
	make();
	struct itimerspec hour = {{9, 0}, {3600, 0}}, soon = {{0, 1000000}, {0, 1000000}};
	CHECK(timerfd_settime(timer, 0, &hour, NULL) == 0);
	CHECK(raise(SIGUSR1) == 0);
	int id = checkpoint();
	int round = rv_rollbacks(id);
	check(round);
	say("as it was %d", round);
	if (round == 3)
		return 0;
	CHECK(timerfd_settime(timer, 0, &soon, NULL) == 0);
	int all[] = {events, timer, signals, watches, set};
	for (int i = 0; i < 5; i++)
		if (round != 1 || all[i] != set)
			CHECK(close(all[i]) == 0);
	// Others take the numbers.
	if (round == 2) {
		for (int i = 0; i < 5; i++) {
			int other = i % 2 ? epoll_create1(0) : eventfd(77, 0);
			CHECK(other >= 0);
		}
	}
	back(id);
}
