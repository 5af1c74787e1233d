// exec in all forms: by descriptor, through scripts, with long arguments, and what it refuses.
// covers: execve execveat
#include "guest.h"

extern char **environ;

static void in_child(const char *name, void (*run)(void))
{
	pid_t child = fork();
	if (child == 0) {
		run();
		say("%s: %s", name, errno_name(errno));
		_exit(1);
	}
	reap(name, child);
}

static void by_fd(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *arguments[] = {"by-fd", "a", NULL};
	fexecve(fd, arguments, environ);
}

static void by_execveat(void)
{
	int fd = open("/proc/self/exe", O_PATH);
	char *arguments[] = {"by-execveat", "b", NULL};
	syscall(SYS_execveat, fd, "", arguments, environ, AT_EMPTY_PATH);
}

static void script(void)
{
	execl("./script", "./script", "x y", NULL);
}

static void nested_script(void)
{
	execl("./nested", "./nested", "argument", NULL);
}

static void plain_text(void)
{
	execl("./text", "./text", NULL);
}

static void plain_text_execlp(void)
{
	execlp("./text", "./text", NULL);
}

static void not_executable(void)
{
	execl("./noexec", "./noexec", NULL);
}

static void directory(void)
{
	execl("/", "/", NULL);
}

// Nobody writes to it: who opened it to look at it would wait for ever.
static void fifo(void)
{
	execl("./fifo", "./fifo", NULL);
}

static void bad_interpreter(void)
{
	execl("./badscript", "./badscript", NULL);
}

static void truncated_elf(void)
{
	execl("./elf", "./elf", NULL);
}

static void long_arguments(void)
{
	static char word[10000];
	static char *arguments[200];
	memset(word, 'w', sizeof word - 1);
	arguments[0] = "long";
	for (int i = 1; i < 150; i++)
		arguments[i] = word;
	execve("/proc/self/exe", arguments, (char *[]){"ONLY=this", NULL});
}

static void too_long(void)
{
	char *word = malloc(300000);
	memset(word, 'w', 299999);
	word[299999] = 0;
	execl("/proc/self/exe", "x", word, NULL);
}

static void kept_and_closed(void)
{
	int kept = open("/dev/null", O_RDONLY);
	int closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char a[8], b[8];
	snprintf(a, sizeof a, "%d", kept);
	snprintf(b, sizeof b, "%d", closed);
	signal(SIGUSR1, SIG_IGN);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR2);
	execl("/proc/self/exe", "kept", a, b, NULL);
}

static int after_exec(int argc, char **argv)
{
	size_t total = 0;
	for (int i = 0; i < argc; i++)
		total += strlen(argv[i]) + 1;
	say("%s: %d arguments, %zu bytes", argv[0], argc, total);
	if (strcmp(argv[0], "long") == 0)
		say("environment: %s, end %d", environ[0], environ[1] == NULL);
	if (strcmp(argv[0], "kept") == 0) {
		say("kept %d closed %d", fcntl(atoi(argv[1]), F_GETFD), fcntl(atoi(argv[2]), F_GETFD));
		sigset_t set;
		sigpending(&set);
		say("pending %d", sigismember(&set, SIGUSR2));
		sigprocmask(SIG_SETMASK, NULL, &set);
		say("blocked %d", sigismember(&set, SIGUSR2));
		struct sigaction action;
		sigaction(SIGUSR1, NULL, &action);
		say("ignored %d", action.sa_handler == SIG_IGN);
	}
	return argc;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return after_exec(argc, argv);
	write_file("script", "#!/bin/sh -u\necho \"script $# $1\"\nexit 6\n");
	write_file("nested", "#!./script inner\n");
	write_file("text", "echo plain text\nexit 4\n");
	write_file("noexec", "x");
	write_file("badscript", "#!/absent/interpreter\n");
	write_file("elf", "\177ELF\2\1\1");
	for (const char **name = (const char *[]){"script", "nested", "text", "badscript", "elf", NULL};
	     *name; name++)
		CHECK(chmod(*name, 0755) == 0);
	in_child("fexecve", by_fd);
	in_child("execveat", by_execveat);
	in_child("script", script);
	in_child("nested script", nested_script);
	in_child("text without #!", plain_text);
	in_child("text by execlp", plain_text_execlp);
	in_child("no permission", not_executable);
	in_child("directory", directory);
	CHECK(mkfifo("fifo", 0755) == 0);
	in_child("FIFO", fifo);
	in_child("bad interpreter", bad_interpreter);
	in_child("truncated ELF", truncated_elf);
	in_child("long arguments", long_arguments);
	in_child("too long", too_long);
	in_child("descriptors and signals", kept_and_closed);
	CHECK_ERR(execve(BAD, (char *[]){"", NULL}, NULL), EFAULT);
	CHECK_ERR(execve("", (char *[]){"", NULL}, NULL), ENOENT);
	return 0;
}
