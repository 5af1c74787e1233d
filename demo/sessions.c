// A cache of sessions with a bug that shows once in some forty runs.
//
// A session's number is random, and its number decides its bucket. One bucket
// number is past the end of the table: what is stored there overwrites the
// pointer to the log, and the next thing that is logged crashes.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { BUCKETS = 128, SESSIONS = 3 };

struct session {
	uint64_t number;
	struct session *next;
};

struct log {
	void (*write)(const char *message, uint64_t number);
};

struct cache {
	struct session *buckets[BUCKETS];
	struct log *log;
};

static void to_stdout(const char *message, uint64_t number)
{
	printf("%s %llu\n", message, (unsigned long long)number);
	fflush(stdout);
}

static struct log log_to_stdout = {to_stdout};

static void add(struct cache *cache, struct session *session)
{
	uint64_t bucket = session->number % (BUCKETS + 1); // The bug: one too many.
	session->next = cache->buckets[bucket];
	cache->buckets[bucket] = session;
}

int main(void)
{
	struct cache *cache = calloc(1, sizeof *cache);
	cache->log = &log_to_stdout;
	for (int i = 0; i < SESSIONS; i++) {
		struct session *session = calloc(1, sizeof *session);
		if (getrandom(&session->number, sizeof session->number, 0) != sizeof session->number)
			return 2;
		cache->log->write("opening session", session->number);
		add(cache, session);
	}
	cache->log->write("sessions opened:", SESSIONS);
	return 0;
}
