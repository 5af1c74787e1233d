// What processes that go back together sent each other comes once: what was in a pipe or a pair
// of sockets between them is there again, and nothing of what was written since. It is checked
// where some was read since of what was there then, all of it, and more than that.
// prints: bytes: what was there, and what is sent now
// prints: messages: what was there, and what is sent now
// prints: back: what was there, and what is sent now
#include "live.h"
#include <sys/ioctl.h>

enum { PIPE, STREAM, MESSAGES, BACK, KINDS };

struct shared {
	atomic_int asked;
	atomic_int answered;
};

static int ends[KINDS][2];

// The child reads: how much of what is the kind times 100 plus the number of bytes.
static void serve(struct shared *shared, char *text)
{
	for (int asked; (asked = await(&shared->asked)) != -1;) {
		int kind = asked / 100, bytes = asked % 100;
		atomic_store(&shared->asked, 0);
		if (kind == BACK) {
			write_all(ends[STREAM][1], "back", (size_t)bytes);
		} else if (kind == MESSAGES) {
			bytes = (int)recv(ends[kind][1], text, 100, 0);
			CHECK(bytes > 0);
		} else {
			read_all(ends[kind][kind == PIPE ? 0 : 1], text, (size_t)bytes);
		}
		text[bytes] = 0;
		post(&shared->answered, 1);
	}
	_exit(0);
}

static void ask(struct shared *shared, int kind, int bytes)
{
	post(&shared->asked, kind * 100 + bytes);
	await(&shared->answered);
	atomic_store(&shared->answered, 0);
}

// The child finds these bytes, and nothing behind them.
static void expect(struct shared *shared, const char *text, int kind, const char *wanted)
{
	int left;
	ask(shared, kind, (int)strlen(wanted));
	if (strcmp(text, wanted) != 0)
		say("kind %d: \"%s\" instead of \"%s\"", kind, text, wanted);
	CHECK(strcmp(text, wanted) == 0);
	if (kind != MESSAGES) {
		CHECK(ioctl(ends[kind][kind == PIPE ? 0 : 1], FIONREAD, &left) == 0);
		CHECK(left == 0);
	}
}

static void round_of(struct shared *shared, char *text, int since)
{
	int writes[KINDS] = {ends[PIPE][1], ends[STREAM][0], ends[MESSAGES][0]};
	for (int kind = PIPE; kind <= STREAM; kind++)
		write_all(writes[kind], "then", 4);
	CHECK(send(writes[MESSAGES], "then", 4, 0) == 4);
	ask(shared, BACK, 2);
	int id = checkpoint();
	if (first_time(id)) {
		for (int kind = PIPE; kind <= STREAM; kind++) {
			write_all(writes[kind], "since", 5);
			ask(shared, kind, since);
		}
		CHECK(send(writes[MESSAGES], "since", 5, 0) == 5);
		for (int got = 0; got < since; got += 3)
			ask(shared, MESSAGES, 0);
		ask(shared, BACK, 4);
		expect_input(ends[STREAM][0], "bab");
		back(id);
	}
	for (int kind = PIPE; kind <= STREAM; kind++) {
		write_all(writes[kind], "now", 3);
		expect(shared, text, kind, "thennow");
	}
	CHECK(send(writes[MESSAGES], "now", 3, 0) == 3);
	expect(shared, text, MESSAGES, "then");
	expect(shared, text, MESSAGES, "now");
	ask(shared, BACK, 4);
	expect_input(ends[STREAM][0], "baback");
	forget(id);
}

int main(void)
{
	need_session();
	CHECK(pipe(ends[PIPE]) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[STREAM]) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends[MESSAGES]) == 0);
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	struct shared *shared = (struct shared *)memory;
	char *text = memory + PAGE / 2;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		serve(shared, text);
	for (int since = 2; since <= 6; since += 2)
		round_of(shared, text, since);
	say("bytes: what was there, and what is sent now");
	say("messages: what was there, and what is sent now");
	say("back: what was there, and what is sent now");
	post(&shared->asked, -1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
