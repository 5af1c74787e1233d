/* A process whose stack is written over to its end: the kernel's vector, by which a debugger
 * finds the program's symbols, stood there. The child runs what its parent was started with. */
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void fill(char *p, long n)
{
	for (long i = 0; i < n; i++)
		p[i] = 'A';
}

static int over_all(void)
{
	char small[16];

	fill(small, 1L << 30);
	return small[3];
}

int main(void)
{
	if (fork() == 0)
		return over_all();
	wait(NULL);
	return over_all();
}
