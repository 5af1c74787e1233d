// Eight threads allocate while one of them takes a request that is longer than its block. The
// request is answered nevertheless: no input is dropped where other allocations will do.
// options: --on-crash=rollback:9
// prints: the request was "a request that is longer than the block that was made for it"
// prints: eight threads made 8000 blocks
// says: and on as before
// says: so that allocations have 256 bytes more, allocations are filled with zeros, what is freed is kept
// once: the next way is to drop the request
#include "recover.h"

#define REQUEST "a request that is longer than the block that was made for it"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int made, input;
static char answer[128];

static void serve(void)
{
	char *block = allocate(MALLOC, 24);
	struct named *neighbour = allocate(MALLOC, sizeof *neighbour);
	*neighbour = (struct named){"the request was", 0};
	// The bug: the block has no room for it.
	char *volatile place = block;
	ssize_t bytes = read(input, answer, sizeof answer);
	CHECK(bytes == sizeof REQUEST);
	seen = neighbour;
	fill(place, 'A', (size_t)bytes);
	char text[256];
	snprintf(text, sizeof text, "%s \"%s\"", seen->text, answer);
	say("%s", text);
	release(neighbour);
	release(block);
}

static void *work(void *argument)
{
	for (size_t i = 0; i < 1000; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		int number = made++;
		CHECK(pthread_mutex_unlock(&lock) == 0);
		void *block = allocate(MALLOC, 16 + i);
		fill(block, 'C', 16 + i);
		if (number == 0)
			serve();
		release(block);
	}
	return argument;
}

int main(void)
{
	begin();
	int both[2];
	CHECK(pipe(both) == 0);
	input = both[0];
	write_all(both[1], REQUEST, sizeof REQUEST);
	pthread_t threads[8];
	CHECK(pthread_mutex_lock(&lock) == 0);
	for (int i = 0; i < 8; i++)
		threads[i] = start(work, NULL);
	checkpoint();
	CHECK(pthread_mutex_unlock(&lock) == 0);
	for (int i = 0; i < 8; i++)
		join(threads[i]);
	say("eight threads made %d blocks", made);
	survived();
	return 0;
}
