// Blocking calls that a signal interrupts: restarted with SA_RESTART, else EINTR.
// covers: restart_syscall nanosleep
#include "guest.h"
#include <poll.h>
#include <sys/time.h>

static volatile int handled, wakes;
static int wake[2];

static void handler(int number)
{
	(void)number;
	handled++;
	if (wakes && handled == 3)
		CHECK(write(wake[1], "w", 1) == 1);
}

static void every_20_ms(int on)
{
	struct itimerval t = {{0, on ? 20000 : 0}, {0, on ? 20000 : 0}};
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

// The third signal writes into the pipe, if that is wanted.
static void install(int flags, int with_wake)
{
	wakes = with_wake;
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	handled = 0;
}

int main(void)
{
	char byte;
	CHECK(pipe(wake) == 0);
	install(0, 0);
	every_20_ms(1);
	CHECK_ERR(read(wake[0], &byte, 1), EINTR);
	every_20_ms(0);
	nondet("handled %d", handled);
	install(SA_RESTART, 1);
	every_20_ms(1);
	CHECK(read(wake[0], &byte, 1) == 1);
	every_20_ms(0);
	say("read was restarted until the third signal: %d", handled >= 3);

	// poll is never restarted, whatever the handler says.
	install(SA_RESTART, 0);
	every_20_ms(1);
	struct pollfd p = {wake[0], POLLIN, 0};
	CHECK_ERR(poll(&p, 1, -1), EINTR);
	every_20_ms(0);

	// nanosleep tells what was left; it goes on by itself after a stop and a continue.
	install(0, 0);
	struct timespec want = {5000, 0}, left = {0, 0};
	every_20_ms(1);
	CHECK_ERR(syscall(SYS_nanosleep, &want, &left), EINTR);
	every_20_ms(0);
	nondet("left %ld.%09ld", left.tv_sec, left.tv_nsec);
	say("less is left: %d", left.tv_sec > 0 && left.tv_sec < 5000);

	int gate[2];
	CHECK(pipe(gate) == 0);
	pid_t child = fork();
	if (child == 0) {
		struct timespec short_time = {0, 200000000};
		int64_t before = now_ns();
		CHECK(write(gate[1], "g", 1) == 1);
		int result = nanosleep(&short_time, NULL);
		int64_t slept = now_ns() - before;
		nondet("slept %lld", (long long)slept);
		_exit(result == 0 && slept >= 200000000 ? 0 : 1);
	}
	int status;
	CHECK(read(gate[0], &byte, 1) == 1);
	CHECK(kill(child, SIGSTOP) == 0);
	CHECK(waitpid(child, &status, WUNTRACED) == child);
	// On a loaded machine it may have slept, and ended, before the stop came.
	if (WIFSTOPPED(status)) {
		CHECK(kill(child, SIGCONT) == 0);
		CHECK(waitpid(child, &status, 0) == child);
	}
	say_status("sleeper", status);

	// wait is restarted as well.
	install(SA_RESTART, 1);
	child = fork();
	if (child == 0) {
		every_20_ms(0);
		CHECK(read(wake[0], &byte, 1) == 1);
		_exit(8);
	}
	every_20_ms(1);
	reap("waited for over signals", child);
	every_20_ms(0);
	outcome("restart_syscall by itself", syscall(SYS_restart_syscall));
	return 0;
}
