// Arguments, environment and auxiliary vector as a program finds them.
// covers: execve
#include "guest.h"
#include <sys/auxv.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc == 1) {
		char *arguments[] = {"named differently", "", "two words", "\xff\xfe", "$HOME", NULL};
		char *variables[] = {"A=1", "EMPTY=", "no-equals-sign", "A=second", "LD_BIND_NOW=1", NULL};
		CHECK(setenv("CHANGED", "yes", 1) == 0 && strcmp(getenv("CHANGED"), "yes") == 0);
		execve("/proc/self/exe", arguments, variables);
		CHECK(!"execve returned");
	}
	for (int i = 0; i < argc; i++)
		say("argument %d: %s", i, argv[i]);
	for (char **e = environ; *e; e++)
		say("variable: %s", *e);
	say("A is %s", getenv("A"));
	CHECK((char *)argv[argc] == NULL && environ == argv + argc + 1);
	say("page size %lu clock %lu platform %s", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK),
	    (char *)getauxval(AT_PLATFORM));
	say("uid %lu secure %lu", getauxval(AT_EUID), getauxval(AT_SECURE));
	nondet("entry %lx name %s", getauxval(AT_ENTRY), (char *)getauxval(AT_EXECFN));
	nondet("hardware %lx", getauxval(AT_HWCAP));
	char line[4096];
	int fd = open("/proc/self/cmdline", O_RDONLY);
	ssize_t got = read(fd, line, sizeof line);
	say("cmdline of %zd bytes hash %llx", got, (unsigned long long)hash_bytes(line, got));
	fd = open("/proc/self/environ", O_RDONLY);
	got = read(fd, line, sizeof line);
	say("environ of %zd bytes", got);
	return 0;
}
