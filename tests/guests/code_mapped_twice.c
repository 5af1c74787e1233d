// Alarms in generated code that is mapped twice, to be executed and to be written, as
// translators do that never have code writable where it is executed.
// covers: memfd_create mmap setitimer
#include "guest.h"
#include <sys/mman.h>
#include <sys/time.h>

#define ALARMS 20
#define PAGE 4096

static volatile int alarms;
static volatile unsigned long rounds;
static unsigned char *writable;

static void on_alarm(int signal)
{
	(void)signal;
	// Other code comes to be on the same page.
	writable[PAGE / 2 + alarms] = 0x90;
	alarms++;
}

int main(void)
{
	// again: incq (%rdi); cmpl %edx, (%rsi); jl again; ret
	static const unsigned char code[] = { 0x48, 0xff, 0x07, 0x39, 0x16, 0x7c, 0xf9, 0xc3 };
	int fd = memfd_create("code", 0);
	CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
	writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *executed = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	CHECK(writable != MAP_FAILED && executed != MAP_FAILED);
	memcpy(writable, code, sizeof code);
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
	struct itimerval interval = { .it_interval = { 0, 3000 }, .it_value = { 0, 3000 } };
	CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
	((void (*)(volatile unsigned long *, volatile int *, int))executed)(&rounds, &alarms, ALARMS);
	nondet("%lu rounds", rounds);
	say("%d alarms", ALARMS);
	return 0;
}
