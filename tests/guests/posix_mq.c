// POSIX message queues.
// covers: mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
#include "guest.h"
#include <mqueue.h>

static volatile int notified;

static void on_message(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	notified = info->si_value.sival_int;
}

int main(void)
{
	char name[64], text[64];
	struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 32};
	unsigned priority = 0;
	snprintf(name, sizeof name, "/retrovane-guest-%d", getpid());
	mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attributes);
	if (queue == (mqd_t)-1) {
		say("mq_open: %s", errno_name(errno));
		outcome("mq_unlink", mq_unlink(name));
		outcome("mq_timedsend", syscall(SYS_mq_timedsend, -1, text, 1, 0, NULL));
		outcome("mq_timedreceive", syscall(SYS_mq_timedreceive, -1, text, 1, NULL, NULL));
		outcome("mq_notify", syscall(SYS_mq_notify, -1, NULL));
		outcome("mq_getsetattr", syscall(SYS_mq_getsetattr, -1, NULL, NULL));
		return 0;
	}
	CHECK(mq_send(queue, "low", 3, 1) == 0 && mq_send(queue, "high!", 5, 9) == 0);
	CHECK(mq_getattr(queue, &attributes) == 0);
	say("messages %ld of %ld", attributes.mq_curmsgs, attributes.mq_maxmsg);
	CHECK(mq_receive(queue, text, sizeof text, &priority) == 5);
	say("%.5s with priority %u", text, priority);
	CHECK(mq_receive(queue, text, sizeof text, NULL) == 3);
	CHECK_ERR(mq_receive(queue, text, sizeof text, NULL), EAGAIN);
	CHECK_ERR(mq_receive(queue, text, 3, NULL), EMSGSIZE);
	struct sigaction action = {.sa_sigaction = on_message, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	event.sigev_value.sival_int = 88;
	CHECK(mq_notify(queue, &event) == 0);
	CHECK(mq_send(queue, "x", 1, 0) == 0);
	say("notified %d", notified);
	attributes.mq_flags = 0;
	CHECK(mq_setattr(queue, &attributes, NULL) == 0);
	CHECK(mq_receive(queue, text, sizeof text, NULL) == 1);
	struct timespec limit;
	CHECK(clock_gettime(CLOCK_REALTIME, &limit) == 0);
	CHECK_ERR(mq_timedreceive(queue, text, sizeof text, NULL, &limit), ETIMEDOUT);
	CHECK(mq_unlink(name) == 0);
	CHECK_ERR(mq_unlink(name), ENOENT);
	return 0;
}
