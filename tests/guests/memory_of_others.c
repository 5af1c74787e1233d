// process_vm_readv and process_vm_writev, on the caller's own memory, on a child's and on a parent's: whole,
// in parts, and where a part is not there.
// covers: process_vm_readv process_vm_writev fork read write wait4
#include "guest.h"
#include <sys/mman.h>
#include <sys/uio.h>

#define PAGE 4096

static char text[64], large[5 * PAGE];

static long put(pid_t pid, void *to, const void *from, size_t bytes)
{
	struct iovec local = { (void *)from, bytes }, remote = { to, bytes };
	return process_vm_writev(pid, &local, 1, &remote, 1, 0);
}

static long get(pid_t pid, void *to, const void *from, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)from, bytes };
	return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

static void own(void)
{
	CHECK(put(getpid(), text, "from here", 10) == 10);
	say("own: %s", text);
	char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED && munmap(pages + 2 * PAGE, PAGE) == 0);
	memset(large, 'x', sizeof large);
	struct iovec local = { large, 3 * PAGE };
	struct iovec remote[3] = { { pages + 10, 20 }, { pages + PAGE, PAGE }, { pages + 2 * PAGE, PAGE } };
	long result = process_vm_writev(getpid(), &local, 1, remote, 3, 0);
	say("two of three: %ld %d %d %d", result, pages[10], pages[30], pages[PAGE + 5]);
	remote[0].iov_base = pages + 2 * PAGE;
	result = process_vm_writev(getpid(), &local, 1, remote, 3, 0);
	say("none: %ld %s", result, result < 0 ? strerrorname_np(errno) : "");
	CHECK_ERR(process_vm_writev(getpid(), &local, 1, remote, 3, 1), EINVAL);
	CHECK_ERR(put(1 << 22, text, "nobody", 7), ESRCH);
	char back[32] = "";
	CHECK(get(getpid(), back, text, 10) == 10);
	say("read back: %s", back);
}

static int await(int fd)
{
	char byte;
	return read(fd, &byte, 1) == 1;
}

static void tell(int fd)
{
	CHECK(write(fd, "x", 1) == 1);
}

int main(void)
{
	own();
	int down[2], up[2];
	CHECK(pipe(down) == 0 && pipe(up) == 0);
	strcpy(text, "the parent's");
	pid_t parent = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		strcpy(text, "the child's");
		memset(large, 1, sizeof large);
		tell(up[1]);
		CHECK(await(down[0]));
		unsigned sum = 0;
		for (unsigned i = 0; i < sizeof large; i++)
			sum = sum * 31 + (unsigned char)large[i];
		say("child has: %s, %u", text, sum);
		tell(up[1]);
		for (int i = 0; i < 40; i++) {
			CHECK(await(down[0]));
			printf(" %d", text[0]);
			tell(up[1]);
		}
		putchar('\n');
		CHECK(put(parent, text, "by the child", 13) == 13);
		_exit(0);
	}
	CHECK(await(up[0]));
	char back[32] = "";
	CHECK(get(child, back, text, 12) == 12);
	say("parent read: %s", back);
	CHECK(put(child, text, "by the parent", 14) == 14);
	memset(large, 7, sizeof large);
	CHECK(put(child, large + 100, large, 4 * PAGE) == 4 * PAGE);
	tell(down[1]);
	CHECK(await(up[0]));
	for (char i = 0; i < 40; i++) {
		CHECK(put(child, text, &i, 1) == 1);
		tell(down[1]);
		CHECK(await(up[0]));
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("parent has: %s", text);
	return 0;
}
