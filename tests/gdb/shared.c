/* Memory that a parent and its child share, and a function that writes to it. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int *counter;

int add(int n)
{
	return *counter += n;
}

int main(void)
{
	int status;
	counter = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	add(1);
	if (fork() == 0) {
		add(10);
		_exit(0);
	}
	wait(&status);
	printf("%d\n", add(100));
	return *counter == 111 ? 0 : 1;
}
