// System calls as 32-bit programs make them, in a program of 64 bits.
// covers: write read lseek getpid getppid kill dup close
#include "guest.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

static volatile sig_atomic_t handled;

static void handler(int number)
{
	(void)number;
	handled++;
}

static int ends[2];

static void wake(void)
{
	for (int i = 0; i < 3; i++) {
		usleep(20000);
		CHECK(kill(getppid(), SIGUSR1) == 0);
	}
	usleep(20000);
	CHECK(write(ends[1], "late", 4) == 4);
	_exit(0);
}

// A call with three arguments; no register but rax changes.
static long call(long number, long first, long second, long third)
{
	long result;
	long kept_r8 = 0x1122334455667788, r8 = kept_r8, kept_rdi = 0x99aabbccddeeff00, rdi = kept_rdi;
	__asm__ volatile("mov %[r8], %%r8\n"
	                 "mov %[rdi], %%rdi\n"
	                 "int $0x80\n"
	                 "mov %%r8, %[r8]\n"
	                 "mov %%rdi, %[rdi]\n"
	                 : "=a"(result), [r8] "+m"(r8), [rdi] "+m"(rdi)
	                 : "0"(number), "b"(first), "c"(second), "d"(third)
	                 : "memory", "r8", "rdi");
	CHECK(r8 == kept_r8 && rdi == kept_rdi);
	return result;
}

int main(void)
{
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	CHECK(low != MAP_FAILED);
	CHECK(call(20, 0, 0, 0) == getpid() && call(64, 0, 0, 0) == getppid());
	strcpy(low, "written by int 0x80\n");
	fflush(stdout);
	CHECK(call(4, 1, (long)low, (long)strlen(low)) == (long)strlen(low));
	int fd = open("/proc/self/exe", O_RDONLY);
	CHECK(fd >= 0 && call(3, fd, (long)low, 64) == 64);
	CHECK(memcmp(low, "\177ELF", 4) == 0);
	CHECK(call(19, fd, -32, SEEK_CUR) == 32);
	long other = call(41, fd, 0, 0);
	CHECK(other > fd && call(6, other, 0, 0) == 0 && call(6, other, 0, 0) == -EBADF);
	CHECK(call(4, 1, 8, 1) == -EFAULT);
	struct sigaction action = { .sa_handler = handler };
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	for (int i = 0; i < 5; i++)
		CHECK(call(37, getpid(), SIGUSR1, 0) == 0 && handled == i + 1);
	say("%d signals", (int)handled);
	// One that is interrupted, and made again.
	CHECK(pipe(ends) == 0);
	action.sa_flags = SA_RESTART;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	pid_t child = start_child(wake);
	CHECK(call(3, ends[0], (long)low, 16) == 4 && memcmp(low, "late", 4) == 0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("%d signals, then what it waited for", (int)handled);
	// Its own end by the last one.
	call(252, 0, 0, 0);
	return 1;
}
