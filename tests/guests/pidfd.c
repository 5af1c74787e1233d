// Processes held by descriptors.
// covers: pidfd_open pidfd_send_signal pidfd_getfd waitid process_vm_readv process_vm_writev kcmp
// covers: process_mrelease
#include "guest.h"
#include <poll.h>
#include <sys/uio.h>

int main(void)
{
	int gate[2];
	char text[32] = "";
	static char shared_name[32] = "memory of the parent";
	CHECK(pipe(gate) == 0);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		strcpy(shared_name, "memory of the child");
		CHECK(write(gate[1], "r", 1) == 1);
		for (;;)
			CHECK(pause() == -1 && (byte = 0) == 0);
	}
	CHECK(read(gate[0], text, 1) == 1);
	int fd = syscall(434, child, 0);
	CHECK(fd >= 0);
	struct pollfd p = {fd, POLLIN, 0};
	CHECK(poll(&p, 1, 0) == 0);
	struct iovec local = {text, 20}, remote = {shared_name, 20};
	if (nondet_outcome("process_vm_readv", process_vm_readv(child, &local, 1, &remote, 1, 0)) == 20)
		CHECK(strcmp(text, "memory of the child") == 0);
	memset(text, 'w', 20);
	nondet_outcome("process_vm_writev", process_vm_writev(child, &local, 1, &remote, 1, 0));
	nondet_outcome("kcmp", syscall(SYS_kcmp, getpid(), child, 2, 0, 0));
	nondet_outcome("pidfd_getfd", syscall(438, fd, gate[0], 0));
	nondet_outcome("process_mrelease", syscall(448, fd, 0));
	CHECK(syscall(424, fd, SIGTERM, NULL, 0) == 0);
	CHECK(poll(&p, 1, -1) == 1);
	siginfo_t info;
	CHECK(waitid(3, fd, &info, WEXITED) == 0); // P_PIDFD
	say("died by %d code %d", info.si_status, info.si_code);
	CHECK_ERR(syscall(424, fd, 0, NULL, 0), ESRCH);
	CHECK_ERR(syscall(434, child, 0), ESRCH);
	CHECK_ERR(syscall(434, getpid(), 0x7777), EINVAL);
	return 0;
}
