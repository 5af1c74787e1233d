// Watching files and directories.
// covers: inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_init fanotify_mark
#include "guest.h"
#include <sys/fanotify.h>
#include <sys/inotify.h>

static void drain(int fd)
{
	char buffer[512] __attribute__((aligned(8)));
	ssize_t got;
	while ((got = read(fd, buffer, sizeof buffer)) > 0) {
		for (ssize_t at = 0; at < got;) {
			struct inotify_event *e = (void *)(buffer + at);
			say("watch %d mask %x name %s move %d", e->wd, e->mask, e->len ? e->name : "-",
			    e->cookie != 0);
			nondet("cookie %u", e->cookie);
			at += sizeof *e + e->len;
		}
	}
	CHECK(got == -1 && errno == EAGAIN);
}

int main(void)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(syscall(SYS_inotify_init) >= 0);
	CHECK(mkdir("d", 0700) == 0);
	int watch = inotify_add_watch(fd, "d", IN_ALL_EVENTS);
	CHECK(watch > 0);
	write_file("d/file", "text");
	CHECK(rename("d/file", "d/renamed-to-something-longer") == 0);
	drain(fd);
	int second = inotify_add_watch(fd, "d/renamed-to-something-longer", IN_ATTRIB | IN_DELETE_SELF);
	CHECK(second > watch);
	CHECK(unlink("d/renamed-to-something-longer") == 0);
	drain(fd);
	CHECK(inotify_rm_watch(fd, watch) == 0);
	drain(fd);
	CHECK_ERR(inotify_rm_watch(fd, 99), EINVAL);
	CHECK_ERR(inotify_add_watch(fd, "absent", IN_ALL_EVENTS), ENOENT);
	int fan = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);
	outcome("fanotify_init", fan);
	outcome("fanotify_mark", fanotify_mark(fan, FAN_MARK_ADD, FAN_OPEN | FAN_ONDIR, AT_FDCWD, "d"));
	if (fan >= 0) {
		int opened = open("d", O_RDONLY);
		struct fanotify_event_metadata event;
		CHECK(read(fan, &event, sizeof event) == sizeof event);
		say("fanotify mask %llx descriptor %d", (unsigned long long)event.mask, event.fd >= 0);
		close(event.fd);
		close(opened);
	}
	return 0;
}
