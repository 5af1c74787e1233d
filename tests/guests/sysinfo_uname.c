// What the system tells about itself.
// covers: uname sysinfo syslog getcpu sethostname setdomainname
#include "guest.h"
#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

int main(void)
{
	struct utsname name;
	struct sysinfo info;
	unsigned cpu, node;
	CHECK(uname(&name) == 0);
	say("%s on %s", name.sysname, name.machine);
	nondet("%s %s %s", name.nodename, name.release, name.version);
	CHECK(sysinfo(&info) == 0 && info.totalram > 0);
	nondet("uptime %ld free %lu processes %d", info.uptime, info.freeram, info.procs);
	CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
	nondet("cpu %u node %u sched_getcpu %d", cpu, node, sched_getcpu());
	nondet("processors %d of %d", get_nprocs(), get_nprocs_conf());
	nondet("pages %ld host id %lx", sysconf(_SC_PHYS_PAGES), gethostid());
	nondet_outcome("syslog", syscall(SYS_syslog, 10, NULL, 0));
	outcome("sethostname with a bad length", sethostname("x", hidden(100000)));
	outcome("setdomainname with a bad length", setdomainname("x", hidden(100000)));
	char line[256];
	for (const char **path = (const char *[]){"/proc/uptime", "/proc/loadavg", "/proc/self/stat",
						  "/proc/self/maps", "/proc/stat", NULL};
	     *path; path++) {
		FILE *file = fopen(*path, "r");
		CHECK(file && fgets(line, sizeof line, file));
		line[strcspn(line, "\n")] = 0;
		nondet("%s: %s", *path, line);
		fclose(file);
	}
	say("system looked at");
	return 0;
}
