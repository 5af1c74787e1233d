// Signals between threads and from timers, into computation and into waiting.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <thread>
#include <time.h>
#include <unistd.h>

static std::atomic<int> ticks, pokes, expiries;
static std::atomic<bool> ended;

int main()
{
	struct sigaction action = {};
	action.sa_handler = [](int) { ticks++; };
	action.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &action, nullptr);
	action.sa_handler = [](int) { pokes++; };
	sigaction(SIGUSR1, &action, nullptr);

	// A thread of its own takes SIGALRM by sigwait.
	sigset_t alarm;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
	std::thread waiter([&] {
		for (int i = 0; i < 50; i++) {
			int number = 0;
			sigwait(&alarm, &number);
			expiries += number == SIGALRM;
		}
		ended = true;
	});
	itimerval profile = {{0, 1000}, {0, 1000}};
	setitimer(ITIMER_PROF, &profile, nullptr);
	timer_t timer;
	sigevent event = {};
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGALRM;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	itimerspec interval = {{0, 2000000}, {0, 2000000}};
	timer_settime(timer, 0, &interval, nullptr);

	volatile unsigned long work[2] = {};
	// Until the profile's ticks are there, too: on a busy machine it computes little meanwhile.
	std::thread computing([&] {
		while (!ended || ticks <= 5)
			work[0] = work[0] * 6364136223846793005ul + 1;
	});
	std::thread sleeping([&] {
		while (!ended)
			usleep(500);
	});
	for (int i = 0; i < 200; i++) {
		pthread_kill(computing.native_handle(), SIGUSR1);
		pthread_kill(sleeping.native_handle(), SIGUSR1);
		std::this_thread::sleep_for(std::chrono::microseconds(200));
	}
	waiter.join();
	computing.join();
	sleeping.join();
	timer_delete(timer);
	profile = {};
	setitimer(ITIMER_PROF, &profile, nullptr);
	printf("%d expiries, pokes %s, ticks %s\n", expiries.load(), pokes > 0 ? "yes" : "no", ticks > 5 ? "yes" : "no");
	printf("~ %d pokes, %d ticks, %lx\n", pokes.load(), ticks.load(), work[0]);
	return 0;
}
