// Calls on memory that fail after a part of their effect, in each way that there is: what the part was is
// seen in memory, by calls that fail at it, and by faults.
// covers: madvise mprotect munmap mremap mmap mlock munlock fork pkey_mprotect
#include "guest.h"
#include <sys/mman.h>

#define PAGE 4096ul

static char *pages(int count)
{
	char *p = mmap(NULL, (size_t)count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	for (int i = 0; i < count; i++)
		p[i * PAGE] = (char)('a' + i);
	return p;
}

// Whether a byte can be read, written: asked of the kernel, which writes there, or reads.
static const char *rights(char *at)
{
	int ends[2];
	char byte = 'x';
	CHECK(pipe(ends) == 0);
	int readable = write(ends[1], at, 1) == 1;
	if (readable)
		CHECK(read(ends[0], &byte, 1) == 1);
	CHECK(write(ends[1], &byte, 1) == 1);
	int writable = read(ends[0], at, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return writable ? "rw" : readable ? "r-" : "--";
}

static int may_differ;

static void show(const char *what, int result, char *p, int count)
{
	int error = result == 0 ? 0 : errno;
	if (may_differ)
		fputs("~ ", stdout);
	printf("%s: %d %s:", what, result, error ? strerrorname_np(error) : "ok");
	for (int i = 0; i < count; i++) {
		const char *may = rights(p + (unsigned long)i * PAGE);
		printf(" %s", may);
		if (may[0] == 'r')
			printf("%02x", (unsigned char)p[(unsigned long)i * PAGE]);
	}
	putchar('\n');
}

static void advice(int kind, const char *name)
{
	char *p = pages(5);
	CHECK(mlock(p + 2 * PAGE, PAGE) == 0);
	show(name, madvise(p, 5 * PAGE, kind), p, 5);
	CHECK(munlock(p, 5 * PAGE) == 0);
	CHECK(munmap(p + PAGE, PAGE) == 0);
	show("over a hole", madvise(p, 5 * PAGE, kind), p, 5);
	show("from the middle of a page", madvise(p + 1, PAGE, kind), p, 5);
}

static void removal(void)
{
	int fd = memfd_create("removal", 0);
	CHECK(fd >= 0 && ftruncate(fd, 4 * PAGE) == 0);
	char *p = mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	CHECK(mmap(p, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	for (int i = 0; i < 6; i++)
		p[i * PAGE] = (char)('a' + i);
	show("remove up to private memory", madvise(p + PAGE, 4 * PAGE, MADV_REMOVE), p, 6);
}

static void children(void)
{
	char *p = pages(4);
	CHECK(munmap(p + 2 * PAGE, PAGE) == 0);
	show("wiped for children", madvise(p, 4 * PAGE, MADV_WIPEONFORK), p, 2);
	fflush(stdout);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		say("child has %d %d %d", p[0], p[PAGE], p[3 * PAGE]);
		_exit(0);
	}
	CHECK(waitpid(child, NULL, 0) == child);
	say("parent has %c %c %c", p[0], p[PAGE], p[3 * PAGE]);
}

static void protection(void)
{
	char *p = pages(5);
	CHECK(munmap(p + 3 * PAGE, PAGE) == 0);
	show("protect over a hole", mprotect(p, 5 * PAGE, PROT_READ), p, 5);
	show("by pkey_mprotect, without a key",
	     (int)syscall(SYS_pkey_mprotect, p, 5 * PAGE, PROT_READ | PROT_WRITE, -1), p, 5);
	char name[] = "/tmp/partial-XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
	int readable = open(name, O_RDONLY);
	CHECK(readable >= 0 && unlink(name) == 0);
	char *q = pages(6);
	CHECK(mmap(q + 2 * PAGE, 2 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, readable, 0) == q + 2 * PAGE);
	CHECK(mprotect(q, 2 * PAGE, PROT_READ) == 0 && mprotect(q + 4 * PAGE, 2 * PAGE, PROT_READ) == 0);
	show("write to what may only be read", mprotect(q, 6 * PAGE, PROT_READ | PROT_WRITE), q, 6);
}

static void moves(void)
{
	char *p = pages(4), *q = pages(4);
	CHECK(munmap(p + 2 * PAGE, PAGE) == 0);
	void *moved = mremap(p, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	show("move over a hole: from", moved == MAP_FAILED ? -1 : 0, p, 4);
	show("to", moved == MAP_FAILED ? -1 : 0, q, 4);
	p = pages(6), q = pages(6);
	CHECK(mprotect(p + 2 * PAGE, 2 * PAGE, PROT_READ) == 0);
	moved = mremap(p, 6 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	show("shrink and move two mappings: from", moved == MAP_FAILED ? -1 : 0, p, 6);
	show("to", moved == MAP_FAILED ? -1 : 0, q, 6);
	p = pages(2), q = pages(4);
	moved = mremap(p, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + 1);
	show("move into a page: from", moved == MAP_FAILED ? -1 : 0, p, 2);
	show("to", moved == MAP_FAILED ? -1 : 0, q, 4);
	p = pages(1), q = pages(4);
	moved = mremap(p + PAGE * 4096, PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	show("move nothing: to", moved == MAP_FAILED ? -1 : 0, q, 4);
}

static void placed(void)
{
	char *p = pages(4);
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	void *at = mmap(p + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	show("map what is sealed over memory", at == MAP_FAILED ? -1 : 0, p, 4);
	fd = open("/proc/self/stat", O_RDONLY);
	at = mmap(p + PAGE, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	show("map what cannot be over memory", at == MAP_FAILED ? -1 : 0, p, 4);
}

static void sealed(void)
{
	char *p = pages(5);
	if (syscall(462, p + 2 * PAGE, PAGE, 0) != 0) // mseal(2), Linux 6.10
		return;
	nondet("sealed: %d %d %d", munmap(p, 5 * PAGE), madvise(p, 5 * PAGE, MADV_DONTNEED),
	       mprotect(p, 5 * PAGE, PROT_READ));
	nondet("it has %s %s %s", rights(p), rights(p + PAGE), rights(p + 3 * PAGE));
	if (rights(p)[0] == 'r')
		nondet("%d", p[0]);
}

int main(void)
{
	advice(MADV_DONTNEED, "drop");
	// When the kernel takes the pages is its own affair.
	may_differ = 1;
	advice(MADV_FREE, "free");
	may_differ = 0;
	advice(MADV_WILLNEED, "will need");
	removal();
	children();
	protection();
	moves();
	placed();
	sealed();
	return 0;
}
