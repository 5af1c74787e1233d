// A large process goes on behind its first checkpoint while its memory comes under protection: what
// it, another thread, or a child does meanwhile is told apart from what was there, at the way back
// and by the next checkpoint.
// prints: 40 first checkpoints, and all memory as it was
#include "live.h"
#include <semaphore.h>

#define ROUNDS 40
#define PAGES ((size_t)12 << 10)
#define PIECES 6
#define PIECE ((size_t)64)

// What does not go back lies in a file.
struct outside {
	uint64_t seed, sum;
	int round;
};

#include "outside.h"

static char *memory, *pieces[PIECES];
static sem_t go, done;
static unsigned places;

static void add(uint64_t *sum, const char *at, size_t pages)
{
	for (size_t page = 0; page < pages; page++)
		*sum = (*sum ^ *(const uint64_t *)(at + page * PAGE)) * 1099511628211u;
}

static uint64_t sum(void)
{
	uint64_t sum = 1469598103934665603u;
	add(&sum, memory, PAGES);
	for (int i = 0; i < PIECES; i++)
		add(&sum, pieces[i], PIECE);
	return sum;
}

static void touch(char *at, size_t page, uint64_t value)
{
	*(volatile uint64_t *)(at + page * PAGE) += value;
}

static void *writes(void *unused)
{
	for (;;) {
		CHECK(sem_wait(&go) == 0);
		for (int i = 0; i < 200; i++) {
			places = places * 1664525 + 1013904223;
			touch(memory, places % PAGES, 7);
		}
		CHECK(sem_post(&done) == 0);
	}
	return unused;
}

static void do_something(struct outside *outside)
{
	char **piece = &pieces[draw(outside, PIECES)];
	size_t page = draw(outside, PIECE);
	switch (draw(outside, 8)) {
	case 0:
		CHECK(munmap(*piece, PIECE * PAGE) == 0);
		CHECK(mmap(*piece, PIECE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		      *piece);
		break;
	case 1:
		CHECK(mmap(*piece, PIECE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		      *piece);
		break;
	case 2:
		CHECK(madvise(*piece, PIECE * PAGE, MADV_DONTNEED) == 0);
		break;
	case 3: {
		char *other = map(PIECE * PAGE);
		*piece = mremap(*piece, PIECE * PAGE, PIECE * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other);
		CHECK(*piece == other);
		break;
	}
	case 4:
		CHECK(mprotect(*piece, PIECE * PAGE, PROT_READ) == 0);
		CHECK(mprotect(*piece, PIECE * PAGE, PROT_READ | PROT_WRITE) == 0);
		break;
	case 5: {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(0);
		CHECK(waitpid(child, NULL, 0) == child);
		break;
	}
	case 6:
		usleep(draw(outside, 2000));
		break;
	default:
		break;
	}
	touch(*piece, page, 3);
	for (int i = 0; i < 50; i++)
		touch(memory, draw(outside, PAGES), 5);
}

static void go_on(struct outside *outside)
{
	unsigned things = draw(outside, 8);
	CHECK(sem_post(&go) == 0);
	for (unsigned i = 0; i < things; i++)
		do_something(outside);
	CHECK(sem_wait(&done) == 0);
}

static void note_sum(struct outside *outside)
{
	outside->sum = sum();
	store(outside);
}

static void go_round(void)
{
	struct outside outside = load();
	note_sum(&outside);
	int first = checkpoint(), second = -1;
	if (first_time(first)) {
		go_on(&outside);
		if (outside.round % 2 == 0) {
			store(&outside);
			back(first);
		}
		second = checkpoint();
		if (first_time(second)) {
			note_sum(&outside);
			go_on(&outside);
			back(second);
		}
	}
	outside = load();
	CHECK(sum() == outside.sum);
	outside.round++;
	store(&outside);
	if (second >= 0)
		forget(second);
	forget(first);
	// The next one is a first one again.
	waitpid(-1, NULL, __WALL | WNOHANG);
}

int main(void)
{
	need_session();
	char name[] = "/tmp/behind-XXXXXX";
	file = mkstemp(name);
	CHECK(file >= 0 && unlink(name) == 0);
	memory = map(PAGES * PAGE);
	for (size_t page = 0; page < PAGES; page++)
		touch(memory, page, page + 1);
	for (int i = 0; i < PIECES; i++) {
		pieces[i] = map(PIECE * PAGE);
		memset(pieces[i], i + 1, PIECE * PAGE);
	}
	CHECK(sem_init(&go, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
	start(writes, NULL);
	struct outside outside = {.seed = 42};
	store(&outside);
	while (load().round < ROUNDS)
		go_round();
	say("%d first checkpoints, and all memory as it was", ROUNDS);
	return 0;
}
