/* Signals: to handlers, to one that is told more, to a fault's, and the one that kills, KILLED_BY: sent
 * to itself, or 0 for a page behind a file's end. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int plain, told, faults, alarms;
static sigjmp_buf again;

static void on_plain(int number) { plain++; }

static void on_told(int number, siginfo_t *info, void *context)
{
	told += info->si_value.sival_int;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	faults++;
	siglongjmp(again, 1);
}

static void on_alarm(int number) { alarms++; }

static void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO;
	sigaction(signal, &action, NULL);
}

static void page_behind_the_end(void)
{
	FILE *file = tmpfile();
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	page[5] = 1;
}

int main(void)
{
	signal(SIGUSR1, on_plain);
	handle(SIGRTMIN + 1, on_told);
	handle(SIGSEGV, on_fault);
	signal(SIGALRM, on_alarm);
	raise(SIGUSR1);
	sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ 41 });
	raise(SIGALRM);
	if (!sigsetjmp(again, 1))
		*(volatile char *)0x1234 = 1;
	raise(SIGUSR1);
	printf("plain %d, told %d, faults %d, alarms %d\n", plain, told, faults, alarms);
	fflush(stdout);
	if (KILLED_BY == 0)
		page_behind_the_end();
	raise(KILLED_BY);
	return 0;
}
