// Operations on signals: sent, blocked, waited for, taken by handlers.
#include "random.h"
#include <sys/signalfd.h>
#include <sys/time.h>

// Every handler folds: replay must deliver where recording delivered.
OPERATION void take_signal(int number, siginfo_t *info, void *context)
{
	int error = errno;
	(void)context;
	signals_seen++;
	if (this_thread) {
		fold_value(this_thread, number);
		fold_value(this_thread, info->si_code);
		if (info->si_code == SI_QUEUE)
			fold_value(this_thread, info->si_value.sival_int);
	}
	if (number == SIGUSR2 && jump_from_handler) {
		sigjmp_buf *target = jump_from_handler;
		jump_from_handler = NULL;
		siglongjmp(*target, 1);
	}
	errno = error;
}

OPERATION void take_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	struct self *me = this_thread;
	if (me && me->escape) {
		fold_value(me, number);
		fold_value(me, info->si_code);
		fold_value(me, (long)info->si_addr);
		siglongjmp(*me->escape, 1);
	}
	signal(number, SIG_DFL);
	raise(number);
}

OPERATION void install(int number, int flags)
{
	int is_fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP;
	struct sigaction action = {.sa_sigaction = is_fault ? take_fault : take_signal, .sa_flags = SA_SIGINFO | flags};
	sigaction(number, &action, NULL);
}

OPERATION void install_all(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
				      SIGPROF, SIGCHLD, SIGPIPE, SIGIO, SIGURG, SIGWINCH, SIGHUP, SIGTERM};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		install(numbers[i], i % 3 ? SA_RESTART : SA_ONSTACK);
	for (int number = SIGRTMIN; number < SIGRTMIN + 4; number++)
		install(number, number % 2 ? SA_NODEFER : SA_RESTART | SA_ONSTACK);
}

OPERATION void signal_itself(struct self *me)
{
	static const int numbers[] = {SIGUSR1, SIGURG, SIGWINCH, SIGHUP, SIGTERM, SIGIO};
	int number = numbers[below(me, 6)];
	long seen = signals_seen;
	switch (below(me, 4)) {
	case 0: raise(number); break;
	case 1: kill(getpid(), number); break;
	case 2: sigqueue(getpid(), SIGRTMIN + (int)below(me, 4), (union sigval){(int)below(me, 1000)}); break;
	case 3: syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number); break;
	}
	fold_value(me, signals_seen - seen);
}

OPERATION void signal_blocked(struct self *me)
{
	sigset_t all, old, pending;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	for (long i = below(me, 6); i > 0; i--)
		pthread_sigqueue(pthread_self(), SIGRTMIN + (int)below(me, 4), (union sigval){(int)i});
	pthread_kill(pthread_self(), SIGUSR1);
	sigpending(&pending);
	fold_value(me, sigismember(&pending, SIGUSR1) + sigismember(&pending, SIGRTMIN) * 2);
	siginfo_t info;
	struct timespec soon = microseconds(below(me, 200));
	while (below(me, 4)) {
		memset(&info, 0, sizeof info);
		if (fold_result(me, sigtimedwait(&all, &info, &soon)) > 0)
			fold_value(me, info.si_value.sival_int);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

OPERATION void signal_descriptor(struct self *me)
{
	sigset_t some, old;
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigaddset(&some, SIGRTMIN + 1);
	pthread_sigmask(SIG_BLOCK, &some, &old);
	int fd = signalfd(-1, &some, SFD_NONBLOCK | SFD_CLOEXEC);
	pthread_kill(pthread_self(), SIGUSR1);
	pthread_sigqueue(pthread_self(), SIGRTMIN + 1, (union sigval){7});
	struct signalfd_siginfo infos[4];
	ssize_t got = fold_result(me, read(fd, infos, sizeof infos[0] * (size_t)(1 + below(me, 4))));
	if (got > 0)
		fold(me, infos, (size_t)got);
	close(fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

OPERATION void signal_from_timer(struct self *me)
{
	long until = signals_seen + 1 + below(me, 3);
	// Not so often that handlers are all that is done where each signal takes its time.
	struct itimerval every = {{0, 8000 + below(me, 9000)}, {0, 200 + below(me, 900)}};
	int which = below(me, 3) ? ITIMER_REAL : ITIMER_VIRTUAL;
	setitimer(which, &every, NULL);
	volatile unsigned long spins = 0;
	for (unsigned long limit = (unsigned long)below(me, 3000000); signals_seen < until && spins < limit; spins++)
		;
	fold_value(me, (long)spins);
	struct itimerval none = {{0, 0}, {0, 0}};
	setitimer(which, &none, &every);
	fold_value(me, every.it_value.tv_usec);
}

// A timer of this thread's own; the call that it interrupts is begun again or not.
OPERATION void signal_to_thread(struct self *me)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + (int)below(me, 4)};
	event.sigev_value.sival_int = (int)below(me, 99);
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	timer_t timer;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
		return;
	struct itimerspec spec = {{0, 0}, {0, 1 + below(me, 600000)}}, left;
	timer_settime(timer, 0, &spec, NULL);
	struct timespec rest = {0, 0}, nap = microseconds(below(me, 1200));
	fold_result(me, nanosleep(&nap, &rest));
	fold_value(me, rest.tv_nsec);
	for (volatile long i = below(me, 200000); i > 0; i--)
		;
	timer_gettime(timer, &left);
	fold_value(me, left.it_value.tv_nsec);
	fold_value(me, timer_getoverrun(timer));
	timer_delete(timer);
}

OPERATION void signal_suspended(struct self *me)
{
	sigset_t mask, old;
	sigemptyset(&mask);
	sigaddset(&mask, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &mask, &old);
	pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){5});
	sigset_t waits = old;
	sigdelset(&waits, SIGRTMIN);
	fold_result(me, sigsuspend(&waits));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

OPERATION void signal_jumps(struct self *me)
{
	sigjmp_buf target;
	if (sigsetjmp(target, 1) == 0) {
		jump_from_handler = &target;
		pthread_kill(pthread_self(), SIGUSR2);
		jump_from_handler = NULL;
	}
	fold_value(me, signals_seen);
}

OPERATION void signal_faults(struct self *me)
{
	sigjmp_buf escape;
	if (sigsetjmp(escape, 1) == 0) {
		me->escape = &escape;
		switch (below(me, 6)) {
		case 0: fold_value(me, *(volatile int *)below(me, PAGE)); break;
		case 1: {
			volatile int zero = 0;
			fold_value(me, 5 / zero);
			break;
		}
		case 2: __asm__ volatile("ud2"); break;
		case 3: __asm__ volatile("int3"); break;
		case 4: __asm__ volatile("hlt"); break;
		case 5: ((void (*)(void))(uintptr_t)(0x1000 + below(me, 100)))(); break;
		}
	}
	me->escape = NULL;
}

OPERATION void signal_stack(struct self *me)
{
	static __thread char stack[3 * 16384];
	stack_t ours = {.ss_sp = stack, .ss_size = sizeof stack}, old;
	fold_result(me, sigaltstack(&ours, &old));
	fold_value(me, old.ss_flags);
	pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){2});
	raise(below(me, 2) ? SIGWINCH : SIGUSR1);
	sigaltstack(&old, NULL);
}

OPERATION void signal_actions(struct self *me)
{
	struct sigaction before;
	int number = 1 + (int)below(me, 70);
	fold_result(me, sigaction(number, NULL, &before));
	fold_value(me, before.sa_flags);
	if (number == SIGTTOU || number == SIGTTIN || number == SIGCONT) {
		signal(number, below(me, 2) ? SIG_IGN : SIG_DFL);
		fold_value(me, raise(SIGCONT));
	}
	install(SIGRTMIN + (int)below(me, 4), below(me, 2) ? SA_RESTART : SA_NODEFER);
}
