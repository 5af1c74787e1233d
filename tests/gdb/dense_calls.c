/* Calls so dense that the debugger has jumps planted at them while the program runs at full speed. What
 * stands beside a call is executed in a copy then: stores that are watched, and one that faults. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS 3000

volatile long ahead, behind, inside, rounds, received;
static int ends[2], back[2];

long seek_to(int file, long place, int from, volatile long *result);
long seek_from(int file, long place, int from, volatile long *result);

__asm__(".text\n"
	".globl seek_to, seek_from, call_there, call_here\n"
	".type seek_to, @function\n"
	"seek_to:\n"
	"	mov %rcx, %r8\n"
	"	mov $8, %eax\n"
	"	mov %rsi, ahead(%rip)\n"
	"call_there:\n"
	"	syscall\n"
	"	mov %rax, (%r8)\n"
	"	ret\n"
	".size seek_to, . - seek_to\n"
	".type seek_from, @function\n"
	"seek_from:\n"
	"	mov %rcx, %r8\n"
	"	mov $8, %eax\n"
	"	test %esi, %esi\n"
	"	jns call_here\n"
	"	xor %esi, %esi\n"
	"call_here:\n"
	"	syscall\n"
	"	mov %rax, (%r8)\n"
	"	incq rounds(%rip)\n"
	"	ret\n"
	".size seek_from, . - seek_from\n");

static void *worker(void *none)
{
	char byte;
	while (read(ends[0], &byte, 1) == 1) {
		/* Behind the answer it would be told apart by who has the turn next. */
		received++;
		if (write(back[1], &byte, 1) != 1)
			break;
	}
	return none;
}

int main(void)
{
	pthread_t thread;
	char byte;
	int file = open("/proc/self/exe", O_RDONLY);
	if (file < 0 || pipe(ends) || pipe(back) || pthread_create(&thread, NULL, worker, NULL))
		return 1;
	for (long i = 1; i <= ROUNDS; i++) {
		seek_to(file, i, SEEK_SET, &inside);
		seek_from(file, 2 * i, SEEK_SET, &behind);
		if (i % 4 == 0 && (write(ends[1], "x", 1) != 1 || read(back[0], &byte, 1) != 1))
			return 2;
	}
	seek_from(file, 77, SEEK_SET, NULL);
	return 0;
}
