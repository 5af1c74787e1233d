// Random steps: writes, mappings that come, go, shrink, close and lose their
// content, children, checkpoints, discards, rollbacks and replays. Whenever a checkpoint
// returns again, all memory is as it was when it was taken.
// prints: went back 60 times
#include "live.h"

#define AREAS 10
#define IDS 24
#define ROLLBACKS 60

// What does not go back lies in a file: what is drawn, and what was seen.
struct outside {
	uint64_t seed;
	int steps, rollbacks;
	struct {
		int id;
		uint64_t sum;
	} taken[IDS];
};

#include "outside.h"

struct area {
	char *at;
	size_t pages;
	int protection;
};

static struct area areas[AREAS];

static uint64_t sum(void)
{
	uint64_t sum = 1469598103934665603u;
	for (int i = 0; i < AREAS; i++) {
		struct area *area = &areas[i];
		sum = (sum ^ (uint64_t)(uintptr_t)area->at) * 1099511628211u;
		sum = (sum ^ area->pages ^ ((uint64_t)area->protection << 32)) * 1099511628211u;
		if (!(area->protection & PROT_READ))
			continue;
		for (size_t at = 0; at < area->pages * PAGE; at += 8)
			sum = (sum ^ *(uint64_t *)(area->at + at)) * 1099511628211u;
	}
	return sum;
}

static void change(struct outside *outside, struct area *area)
{
	unsigned what = draw(outside, 12);
	if (!area->at || what == 0) {
		if (area->at)
			CHECK(munmap(area->at, area->pages * PAGE) == 0);
		area->pages = 1 + draw(outside, draw(outside, 8) == 0 ? 900 : 60);
		area->at = map(area->pages * PAGE);
		area->protection = PROT_READ | PROT_WRITE;
		return;
	}
	size_t first = draw(outside, (unsigned)area->pages);
	size_t pages = 1 + draw(outside, (unsigned)(area->pages - first));
	if (what == 1) {
		CHECK(madvise(area->at + first * PAGE, pages * PAGE, MADV_DONTNEED) == 0);
	} else if (what == 2) {
		static const int all[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
		area->protection = all[draw(outside, 3)];
		CHECK(mprotect(area->at, area->pages * PAGE, area->protection) == 0);
	} else if (what == 3) {
		// Only its end goes.
		if (area->pages > 1) {
			size_t left = 1 + draw(outside, (unsigned)area->pages - 1);
			CHECK(munmap(area->at + left * PAGE, (area->pages - left) * PAGE) == 0);
			area->pages = left;
		}
	} else if (area->protection & PROT_WRITE) {
		for (size_t page = first; page < first + pages; page += 1 + draw(outside, 3))
			memset(area->at + page * PAGE + draw(outside, 4000), (int)draw(outside, 256), 64);
	}
}

// Takes a checkpoint, and looks whenever it returns.
static void take(struct outside *outside, int place)
{
	uint64_t now = sum();
	store(outside);
	int id = checkpoint();
	*outside = load();
	if (!first_time(id)) {
		for (place = 0; outside->taken[place].id != id + 1; place++)
			CHECK(place < IDS - 1);
		CHECK(outside->taken[place].sum == sum());
		return;
	}
	outside->taken[place].id = id + 1;
	outside->taken[place].sum = now;
}

static void step(struct outside *outside)
{
	unsigned what = draw(outside, 20);
	int place = (int)draw(outside, IDS), id = outside->taken[place].id - 1;
	if (what < 11) {
		change(outside, &areas[draw(outside, AREAS)]);
	} else if (what < 12) {
		pid_t child = fork();
		if (child == 0)
			_exit(3);
		int status;
		CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
	} else if (id < 0) {
		take(outside, place);
	} else if (what < 15) {
		forget(id);
		outside->taken[place].id = 0;
	} else if (what < 16) {
		uint64_t now = sum();
		again(id);
		CHECK(sum() == now);
	} else if (outside->rollbacks < ROLLBACKS) {
		outside->rollbacks++;
		for (int i = 0; i < IDS; i++)
			if (outside->taken[i].id > id + 1)
				outside->taken[i].id = 0;
		store(outside);
		back(id);
	}
}

int main(void)
{
	need_session();
	file = open("outside", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	struct outside outside = {.seed = 20040627};
	store(&outside);
	while (outside.rollbacks < ROLLBACKS) {
		outside.steps++;
		step(&outside);
		store(&outside);
	}
	say("went back %d times", outside.rollbacks);
	return 0;
}
