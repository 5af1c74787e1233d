// The vsyscall page's three calls, as static programs of old make them: the kernel answers them
// where no interception of system calls sees them.
// covers: gettimeofday time getcpu
#include "threads.h"
#include <stdbool.h>
#include <sys/time.h>
#include <sys/wait.h>

typedef long (*call)(void *, void *, void *);

// A word of data, a constant in a register, and one that is stored.
static call volatile get_time_of_day = (call)0xffffffffff600000ul;

static bool is_there(void)
{
	char line[256];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps))
		found |= strstr(line, "[vsyscall]") != NULL;
	fclose(maps);
	return found;
}

static void ask(const char *who)
{
	call seconds = (call)0xffffffffff600400ul;
	call volatile processor = (call)0xffffffffff600800ul;
	struct timeval now = {0, 0};
	struct timezone zone = {77, 77};
	time_t stored = 0;
	unsigned cpu = ~0u, node = ~0u;
	say("%s: %ld", who, get_time_of_day(&now, &zone, NULL));
	nondet("%ld.%06ld", (long)now.tv_sec, (long)now.tv_usec);
	time_t returned = seconds(&stored, NULL, NULL);
	say("%s: stored what is returned: %d, zone %d", who, stored == returned, zone.tz_minuteswest != 77);
	nondet("%ld", (long)returned);
	say("%s: %ld", who, processor(&cpu, &node, NULL));
	nondet("processor %u of node %u", cpu, node);
	say("%s: an error %ld", who, get_time_of_day(NULL, NULL, NULL));
}

static void *in_thread(void *argument)
{
	ask(argument);
	return NULL;
}

int main(int count, char **words)
{
	if (!is_there()) {
		say("there is no such page");
		return 0;
	}
	if (count > 1) {
		ask(words[1]);
		return 0;
	}
	struct timeval before, after;
	get_time_of_day(&before, NULL, NULL);
	usleep(2000);
	for (int i = 0; i < 100; i++)
		get_time_of_day(&after, NULL, NULL);
	long passed = (after.tv_sec - before.tv_sec) * 1000000 + after.tv_usec - before.tv_usec;
	say("time goes on: %d", passed >= 2000);
	ask("first");
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, in_thread, "thread") == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		ask("child");
		fflush(stdout);
		execl("/proc/self/exe", words[0], "executed", NULL);
		_exit(99);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	say("child %d", status);
	return 0;
}
