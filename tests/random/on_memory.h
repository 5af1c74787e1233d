// Operations on memory: mappings, protections, faults, generated code.
#include "random.h"
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/uio.h>

OPERATION void memory_heap(struct self *me)
{
	if (me->in_child)
		return;
	char *blocks[24] = {0};
	for (int i = 0; i < 60; i++) {
		char **block = &blocks[below(me, 24)];
		size_t size = (size_t)(below(me, 8) ? below(me, 600) : below(me, 300000));
		if (below(me, 3)) {
			char *moved = realloc(*block, size + 1);
			memset(moved, (int)below(me, 256), size + 1);
			*block = moved;
			fold_value(me, (long)moved);
		} else {
			free(*block);
			*block = NULL;
		}
	}
	for (int i = 0; i < 24; i++)
		free(blocks[i]);
}

OPERATION void memory_mapped(struct self *me)
{
	size_t pages = 2 + (size_t)below(me, 30);
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | (below(me, 4) ? 0 : MAP_POPULATE), -1, 0);
	if (at == MAP_FAILED)
		return;
	fold_value(me, (long)at);
	for (size_t i = 0; i < pages; i++)
		at[i * PAGE + (size_t)below(me, PAGE)] = (char)draw(me);
	size_t from = (size_t)below(me, (long)pages), count = 1 + (size_t)below(me, (long)(pages - from));
	static const int advices[] = {MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_WILLNEED, MADV_COLD, MADV_DONTFORK};
	fold_result(me, madvise(at + from * PAGE, count * PAGE, advices[below(me, 4)]));
	unsigned char resident[32];
	fold_result(me, mincore(at, pages * PAGE, resident));
	fold_result(me, munmap(at + from * PAGE, count * PAGE));
	if (from > 0) {
		fold(me, at, PAGE / 2);
		char *moved = mremap(at, from * PAGE, (from + 1 + (size_t)below(me, 9)) * PAGE, MREMAP_MAYMOVE);
		fold_value(me, (long)moved);
		fold(me, moved, PAGE / 2);
	}
	// What was moved is lost on purpose: later operations find other addresses.
	if (below(me, 2) && from == 0)
		munmap(at, pages * PAGE);
}

OPERATION void memory_fixed(struct self *me)
{
	char *at = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return;
	int fd = open_shared_file(me, O_RDWR);
	char *part = at + below(me, 7) * PAGE;
	fold_value(me, mmap(part, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == part);
	*part = 'x';
	void *refused = mmap(part, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
	fold_value(me, refused == MAP_FAILED ? errno : 0);
	fold_value(me, *part);
	close(fd);
	munmap(at, 8 * PAGE);
}

// Writes to a page that may not be written, and whose handler allows it.
OPERATION void memory_protected(struct self *me)
{
	volatile char *at = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return;
	for (volatile int i = 0; i < 3; i++) {
		sigjmp_buf escape;
		volatile int faulted = 1;
		if (sigsetjmp(escape, 1) == 0) {
			me->escape = &escape;
			at[below(me, 2 * PAGE)] = (char)i;
			faulted = 0;
		}
		me->escape = NULL;
		fold_value(me, faulted);
		mprotect((void *)at, PAGE * (size_t)(1 + below(me, 2)), below(me, 2) ? PROT_READ | PROT_WRITE : PROT_READ);
	}
	munmap((void *)at, 2 * PAGE);
}

OPERATION void memory_shared(struct self *me)
{
	for (int i = 0; i < 20; i++) {
		atomic_long *counter = &shared->counters[below(me, 8)];
		switch (below(me, 4)) {
		case 0: fold_value(me, atomic_fetch_add(counter, 1 + below(me, 9))); break;
		case 1: fold_value(me, atomic_exchange(counter, below(me, 1000))); break;
		case 2: fold_value(me, atomic_load(counter)); break;
		case 3: atomic_store(counter, below(me, 100)); break;
		}
	}
	char *byte = &shared->bytes[below(me, PAGE)];
	fold_value(me, *(volatile char *)byte);
	*(volatile char *)byte = (char)draw(me);
}

OPERATION void memory_of_system_v(struct self *me)
{
	int id = shmget(IPC_PRIVATE, 3 * PAGE, IPC_CREAT | 0600);
	if (id == -1)
		return;
	char *at = shmat(id, NULL, 0), *again = shmat(id, NULL, below(me, 2) ? SHM_RDONLY : 0);
	fold_result(me, shmctl(id, IPC_RMID, NULL));
	fill(me, at + below(me, PAGE), PAGE);
	if (again != (char *)-1)
		fold(me, again, 3 * PAGE);
	shmdt(at);
	shmdt(again);
}

OPERATION void memory_by_calls(struct self *me)
{
	char bytes[300], copy[300];
	fill(me, bytes, sizeof bytes);
	struct iovec from = {bytes, sizeof bytes}, to = {copy, (size_t)below(me, sizeof copy)};
	memset(copy, 0, sizeof copy);
	fold_result(me, process_vm_readv(getpid(), &to, 1, &from, 1, 0));
	fold(me, copy, sizeof copy);
	fold_result(me, getrandom(copy, (size_t)below(me, sizeof copy), 0));
	fold(me, copy, sizeof copy);
	fold_result(me, read(-1, copy, 10));
	fold_result(me, write(STDOUT_FILENO, (void *)(16 + (draw(me) & 7)), 10));
	int ends[2];
	if (pipe(ends) == 0) {
		fold_result(me, write(ends[1], bytes, 200));
		fold_result(me, read(ends[0], (void *)below(me, PAGE), 200));
		close(ends[0]);
		close(ends[1]);
	}
}

// mov eax, VALUE; [syscall getppid instead]; ret. The code changes between its calls.
OPERATION void memory_generated(struct self *me)
{
	unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return;
	for (int i = 0; i < 4; i++) {
		uint32_t value = below(me, 2) ? SYS_getppid : (uint32_t)draw(me);
		unsigned char *at = code + below(me, 40);
		unsigned char *entry = at;
		*at++ = 0xb8;
		memcpy(at, &value, 4);
		at += 4;
		if (value == SYS_getppid) {
			*at++ = 0x0f;
			*at++ = 0x05;
		}
		*at++ = 0xc3;
		fold_value(me, ((int (*)(void))(void *)entry)());
	}
	if (below(me, 2)) {
		mprotect(code, PAGE, PROT_READ | PROT_EXEC);
		fold_value(me, code[0]);
	}
	munmap(code, PAGE);
}

OPERATION void memory_strings(struct self *me)
{
	static __thread char from[40000], to[40000];
	size_t length = (size_t)below(me, sizeof from);
	fill(me, from, 64 < length ? 64 : length);
	const void *source = from;
	void *target = to;
	__asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(length) : : "memory");
	size_t zeros = (size_t)below(me, sizeof to);
	target = to + 100;
	if (zeros > sizeof to - 100)
		zeros = sizeof to - 100;
	__asm__ volatile("rep stosb" : "+D"(target), "+c"(zeros) : "a"(below(me, 255)) : "memory");
	fold_value(me, memcmp(from, to, sizeof from));
	to[sizeof to - 1] = 0;
	fold_value(me, (long)strlen(to));
	fold_value(me, memchr(to, 7, sizeof to) != NULL);
}

OPERATION __attribute__((noinline)) long go_deeper(struct self *me, long depth)
{
	volatile char frame[200];
	frame[depth % 200] = (char)depth;
	long below_here = depth > 0 ? go_deeper(me, depth - 1) : 0;
	return below_here + frame[depth % 200];
}

OPERATION void memory_stack(struct self *me)
{
	fold_value(me, go_deeper(me, below(me, 150)));
}
