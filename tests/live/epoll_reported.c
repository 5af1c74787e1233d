// What epoll reports once is reported again after a way back, if it came since: to who asked for
// changes only (EPOLLET), and to a thread that asked for one report (EPOLLONESHOT) and was about
// to hear it at the checkpoint. What was reported before the checkpoint is not reported again.
// prints: changes: 10 of 10 reported again
// prints: once: 20 of 20 reported again
// prints: reported before: 10 of 10 not again
#include "live.h"
#include <semaphore.h>
#include <sys/epoll.h>

static int to_child[2], input[2], set;
static sem_t starts, waits, done;
static volatile uint64_t sink;

// Writes a byte for each that it reads; a process of its own, which does not go back.
static void child(void)
{
	char byte;
	close(to_child[1]);
	close(input[0]);
	while (read(to_child[0], &byte, 1) == 1)
		CHECK(write(input[1], &byte, 1) == 1);
	_exit(0);
}

static void control(int what, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = 0x1234567890};
	CHECK(epoll_ctl(set, what, input[0], &event) == 0);
}

static int report(int timeout_ms)
{
	struct epoll_event event;
	int count = epoll_wait(set, &event, 1, timeout_ms);
	CHECK(count <= 0 || (event.events == EPOLLIN && event.data.u64 == 0x1234567890));
	return count;
}

static void take(void)
{
	char byte;
	CHECK(read(input[0], &byte, 1) == 1);
}

static void changes(void)
{
	volatile int again = 0;
	control(EPOLL_CTL_ADD, EPOLLIN | EPOLLET);
	for (int round = 0; round < 10; round++) {
		int id = checkpoint();
		if (first_time(id)) {
			CHECK(write(to_child[1], "c", 1) == 1);
			CHECK(report(10000) == 1);
			back(id);
		}
		again += report(1000);
		take();
		forget(id);
	}
	say("changes: %d of 10 reported again", again);
}

static void *waiter(void *unused)
{
	for (int round = 0; round < 20; round++) {
		sem_wait(&starts);
		control(EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT);
		sem_post(&waits);
		if (report(5000) == 1)
			take();
		sem_post(&done);
	}
	return unused;
}

static int is_done(void)
{
	struct timespec until;
	CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_sec += 2;
	return sem_timedwait(&done, &until) == 0;
}

static void once(void)
{
	volatile int again = 0;
	pthread_t other = start(waiter, NULL);
	for (int round = 0; round < 20; round++) {
		sem_post(&starts);
		sem_wait(&waits);
		usleep(2000);
		CHECK(write(to_child[1], "o", 1) == 1);
		// The report reaches the other thread, which cannot log it: this one has the turn.
		sink = compute(round, 1000000);
		int id = checkpoint();
		if (first_time(id)) {
			CHECK(is_done());
			back(id);
		}
		again += is_done();
		forget(id);
		if (again <= round)
			break;
	}
	say("once: %d of 20 reported again", again);
	if (again == 20)
		join(other);
}

static void reported_before(void)
{
	volatile int silent = 0;
	for (int round = 0; round < 10; round++) {
		control(EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT);
		CHECK(write(to_child[1], "b", 1) == 1);
		CHECK(report(10000) == 1);
		int id = checkpoint();
		if (first_time(id)) {
			control(EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT);
			CHECK(report(10000) == 1);
			back(id);
		}
		silent += report(20) == 0;
		take();
		forget(id);
	}
	say("reported before: %d of 10 not again", silent);
}

int main(void)
{
	need_session();
	CHECK(pipe(to_child) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, input) == 0);
	if (fork() == 0)
		child();
	set = epoll_create1(0);
	CHECK(set >= 0);
	changes();
	once();
	reported_before();
	return 0;
}
