// More ranges than a few hundred that children do not get, unmapped and mapped again since,
// some of them while the program does the same again: they are in every checkpoint.
// prints: went back: all is there
// prints: did it again: all is there
// prints: a child gets what it was to get
#include "live.h"

#define MANY 600

static char *pages[MANY];

// Every second one, so that they stay apart.
static void keep_from_children(int first)
{
	for (int i = first; i < MANY; i += 2)
		CHECK(madvise(pages[i], PAGE, MADV_DONTFORK) == 0);
}

static void map_again(int i)
{
	CHECK(munmap(pages[i], PAGE) == 0);
	CHECK(mmap(pages[i], PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	      pages[i]);
}

static int is_all(char byte)
{
	for (int i = 0; i < MANY; i++)
		if (!is_full(pages[i], PAGE, byte))
			return 0;
	return 1;
}

static void fill_all(char byte)
{
	for (int i = 0; i < MANY; i++)
		memset(pages[i], byte, PAGE);
}

int main(void)
{
	need_session();
	char *all = map((size_t)MANY * PAGE);
	for (int i = 0; i < MANY; i++)
		pages[i] = all + (size_t)i * PAGE;
	keep_from_children(0);
	fill_all('a');
	int id = checkpoint();
	CHECK(is_all('a'));
	if (first_time(id)) {
		for (int i = 0; i < MANY; i += 2)
			map_again(i);
		keep_from_children(1);
		fill_all('b');
		back(id);
	}
	say("went back: all is there");
	int later = checkpoint();
	CHECK(is_all('a'));
	keep_from_children(1);
	fill_all('c');
	again(later);
	int last = checkpoint();
	if (first_time(last)) {
		fill_all('d');
		back(last);
	}
	CHECK(is_all('c'));
	say("did it again: all is there");
	for (int i = 0; i < MANY; i++) {
		map_again(i);
		memset(pages[i], 'e', PAGE);
	}
	forget(checkpoint());
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(is_all('e') ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("a child gets what it was to get");
	return 0;
}
