// A server of lines, for one client after the other, which crashes at `sum` behind a number below 0: its input comes over
// connections.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct item {
	struct item *next;
	int *number;
};

static struct item *items;

static void handle(const char *line, FILE *out)
{
	int number;
	if (sscanf(line, "add %*s %d", &number) == 1) {
		struct item *item = malloc(sizeof(*item));
		item->number = number < 0 ? NULL : malloc(sizeof(number));
		if (item->number)
			*item->number = number;
		item->next = items;
		items = item;
		fprintf(out, "added\n");
	} else if (strncmp(line, "sum", 3) == 0) {
		int sum = 0;
		for (struct item *item = items; item; item = item->next)
			sum += *item->number;
		fprintf(out, "%d\n", sum);
	} else {
		fprintf(out, "what?\n");
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 4)) {
		perror("bind");
		return 1;
	}
	for (;;) {
		int client = accept(listener, NULL, NULL);
		FILE *in = fdopen(client, "r"), *out = fdopen(dup(client), "w");
		char line[128];
		while (fgets(line, sizeof(line), in)) {
			handle(line, out);
			fflush(out);
		}
		fclose(in);
		fclose(out);
	}
}
