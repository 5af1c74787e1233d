// A server that one request kills survives it: it goes back to its last checkpoint, first
// as before, then with other allocations, then without the request. Other connections, one of them open since before, go
// on being served, and files are as they were.
// options: --on-crash=rollback:8 --files=snapshot
// prints: a request before: 1
// prints: a poisoned one: end of connection
// prints: on the connection from before: 2
// prints: on a new connection: 3
// prints: another poisoned one: end of connection
// prints: on the connection from before: 4
// prints: the journal has 4 lines
// prints: the server ends well
#include "live.h"
#include <arpa/inet.h>
#include <sys/stat.h>

#define CONNECTIONS 8

static struct pollfd all[CONNECTIONS];
static int count, served, journal;
static volatile int *volatile nowhere;

// Serves one request; false if the connection has ended.
static int serve(int fd)
{
	char request[64] = "", line[32];
	ssize_t length = read(fd, request, sizeof request - 1);
	if (length <= 0)
		return 0;
	served++;
	int bytes = snprintf(line, sizeof line, "%d\n", served);
	write_all(journal, line, (size_t)bytes);
	if (strncmp(request, "poison", 6) == 0)
		*nowhere = served;
	line[bytes - 1] = 0;
	write_all(fd, line, (size_t)bytes);
	return 1;
}

// One event after the other, each behind a checkpoint.
static void run_server(void)
{
	for (int ended = 0; !ended;) {
		int id = checkpoint();
		CHECK(poll(all, (nfds_t)count, -1) > 0);
		if (all[0].revents) {
			CHECK(count < CONNECTIONS);
			all[count] = (struct pollfd){accept(all[0].fd, NULL, NULL), POLLIN, 0};
			CHECK(all[count++].fd >= 0);
		}
		for (int i = 1; i < count; i++) {
			if (!all[i].revents || serve(all[i].fd))
				continue;
			CHECK(close(all[i].fd) == 0);
			// The first that came is the last that goes.
			ended |= i == 1;
			all[i--] = all[--count];
		}
		forget(id);
	}
}

static int connected(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0);
	return fd;
}

static const char *ask(int fd, const char *request)
{
	static char answer[32];
	write_all(fd, request, strlen(request));
	size_t have = 0;
	do {
		ssize_t got = read(fd, answer + have, sizeof answer - 1 - have);
		// Reset, if the end comes before all was read there.
		CHECK(got >= 0 || errno == ECONNRESET);
		if (got <= 0)
			return "end of connection";
		have += (size_t)got;
	} while (answer[have - 1] != 0);
	return answer;
}

static void run_client(const struct sockaddr_in *address)
{
	int first = connected(address);
	say("a request before: %s", ask(first, "one"));
	int fd = connected(address);
	say("a poisoned one: %s", ask(fd, "poison"));
	close(fd);
	say("on the connection from before: %s", ask(first, "two"));
	fd = connected(address);
	say("on a new connection: %s", ask(fd, "three"));
	say("another poisoned one: %s", ask(fd, "poison"));
	close(fd);
	say("on the connection from before: %s", ask(first, "four"));
	_exit(0);
}

int main(void)
{
	need_session();
	struct sockaddr_in address = {.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	socklen_t length = sizeof address;
	all[0] = (struct pollfd){socket(AF_INET, SOCK_STREAM, 0), POLLIN, 0};
	count = 1;
	CHECK(bind(all[0].fd, (struct sockaddr *)&address, length) == 0 && listen(all[0].fd, 8) == 0);
	CHECK(getsockname(all[0].fd, (struct sockaddr *)&address, &length) == 0);
	journal = open("journal", O_WRONLY | O_CREAT | O_APPEND, 0600);
	CHECK(journal >= 0);
	pid_t client = fork();
	CHECK(client >= 0);
	if (client == 0)
		run_client(&address);
	run_server();
	int status;
	CHECK(waitpid(client, &status, 0) == client && status == 0);
	struct stat file;
	CHECK(fstat(journal, &file) == 0);
	say("the journal has %ld lines", (long)file.st_size / 2);
	say("the server ends well");
	return 0;
}
