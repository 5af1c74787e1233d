// posix_spawn, system and popen: clone with CLONE_VM and CLONE_VFORK on a stack of its own.
// covers: clone
#include "guest.h"
#include <spawn.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc > 1) {
		char line[64] = "";
		if (!fgets(line, sizeof line, stdin))
			strcpy(line, "(nothing)\n");
		printf("spawned %s read %s", argv[1], line);
		return 21;
	}
	pid_t child;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t set;
	write_file("input", "a line of input\n");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "input", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, 1, 9);
	posix_spawn_file_actions_addclose(&actions, 9);
	posix_spawnattr_init(&attributes);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	posix_spawnattr_setsigmask(&attributes, &set);
	sigaddset(&set, SIGPIPE);
	posix_spawnattr_setsigdefault(&attributes, &set);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETPGROUP);
	char *arguments[] = {argv[0], "one", NULL};
	CHECK(posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments, environ) == 0);
	nondet("child %d", child);
	reap("spawned", child);
	say("absent: %s", errno_name(posix_spawn(&child, "/absent", NULL, NULL, arguments, environ)));
	CHECK(posix_spawnp(&child, "true", NULL, NULL, (char *[]){"true", NULL}, environ) == 0);
	reap("spawnp", child);
	int status = system("echo from system; exit 3");
	say_status("system", status);
	FILE *pipe = popen("echo one; echo two; kill -TERM $$", "r");
	char line[64];
	while (fgets(line, sizeof line, pipe))
		printf("popen: %s", line);
	say_status("pclose", pclose(pipe));
	pipe = popen("tr a-z A-Z", "w");
	fputs("to be upper-cased\n", pipe);
	say_status("pclose", pclose(pipe));
	return 0;
}
