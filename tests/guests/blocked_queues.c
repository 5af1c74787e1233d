// Threads blocked in msgrcv, msgsnd, semop and mq_timedreceive while another computes.
// covers: msgrcv msgsnd semop semtimedop mq_timedreceive mq_timedsend
#include "threads.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

struct text_message {
	long type;
	char text[32];
};

static atomic_int here;
static int messages, semaphores;
static mqd_t queue;

static struct text_message received;

static void *in_msgrcv(void *argument)
{
	announce(&here);
	CHECK(msgrcv(messages, &received, sizeof received.text, (long)argument, 0) == 6);
	return NULL;
}

// What it received is said behind its end: it may have found a message there.
static void join_receiver(pthread_t thread)
{
	join(thread);
	say("msgrcv: type %ld %s", received.type, received.text);
}

static void *in_semop(void *argument)
{
	struct sembuf both[2] = {{0, -2, 0}, {1, -1, 0}};
	(void)argument;
	announce(&here);
	CHECK(semop(semaphores, both, 2) == 0);
	return NULL;
}

static void *in_semtimedop(void *argument)
{
	struct sembuf down = {0, -30, 0};
	struct timespec limit = {0, 3000000};
	(void)argument;
	announce(&here);
	CHECK_ERR(semtimedop(semaphores, &down, 1, &limit), EAGAIN);
	return NULL;
}

static void *in_mq_receive(void *argument)
{
	char text[32] = "";
	unsigned priority = 0;
	struct timespec limit = after_ns(CLOCK_REALTIME, 900000000000);
	(void)argument;
	announce(&here);
	CHECK(mq_timedreceive(queue, text, sizeof text, &priority, &limit) == 8);
	say("mq_timedreceive: %s, priority %u", text, priority);
	return NULL;
}

static void *in_mq_send(void *argument)
{
	(void)argument;
	announce(&here);
	CHECK(mq_send(queue, "third", 6, 1) == 0);
	return NULL;
}

static void *in_mq_receive_in_vain(void *argument)
{
	char text[32];
	struct timespec limit = after_ns(CLOCK_REALTIME, 3000000);
	(void)argument;
	announce(&here);
	CHECK_ERR(mq_timedreceive(queue, text, sizeof text, NULL, &limit), ETIMEDOUT);
	return NULL;
}

static pthread_t begin(void *(*body)(void *), long argument)
{
	atomic_store(&here, 0);
	pthread_t thread = start(body, (void *)argument);
	until_asleep(&here);
	say("meanwhile %llx", (unsigned long long)compute(4, 200000));
	return thread;
}

static void posix_queue(void)
{
	char name[64], text[32] = "";
	struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = sizeof text};
	snprintf(name, sizeof name, "/retrovane-blocked-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
	if (queue == (mqd_t)-1) {
		say("mq_open: %s", errno_name(errno));
		return;
	}
	CHECK(mq_unlink(name) == 0);
	for (int i = 0; i < 3; i++) {
		pthread_t thread = begin(in_mq_receive, 0);
		CHECK(mq_send(queue, "message", 8, 3) == 0);
		join(thread);
	}
	join(begin(in_mq_receive_in_vain, 0));
	CHECK(mq_send(queue, "first", 6, 3) == 0 && mq_send(queue, "second", 7, 2) == 0);
	pthread_t thread = begin(in_mq_send, 0);
	for (int i = 0; i < 3; i++) {
		CHECK(mq_receive(queue, text, sizeof text, NULL) > 0);
		say("mq_receive: %s", text);
	}
	join(thread);
}

int main(void)
{
	struct text_message out = {5, "fives"};
	messages = msgget(IPC_PRIVATE, 0600);
	semaphores = semget(IPC_PRIVATE, 2, 0600);
	CHECK(messages >= 0 && semaphores >= 0);
	pthread_t thread = begin(in_msgrcv, 3);
	CHECK(msgsnd(messages, &out, 6, 0) == 0);
	out = (struct text_message){3, "three"};
	CHECK(msgsnd(messages, &out, 6, 0) == 0);
	join_receiver(thread);
	join_receiver(begin(in_msgrcv, 0));
	thread = begin(in_semop, 0);
	struct sembuf first = {0, 2, 0}, second = {1, 1, 0};
	CHECK(semop(semaphores, &first, 1) == 0 && semop(semaphores, &second, 1) == 0);
	join(thread);
	say("semaphores %d %d", semctl(semaphores, 0, GETVAL), semctl(semaphores, 1, GETVAL));
	join(begin(in_semtimedop, 0));
	CHECK(msgctl(messages, IPC_RMID, NULL) == 0 && semctl(semaphores, 0, IPC_RMID) == 0);
	posix_queue();
	return 0;
}
