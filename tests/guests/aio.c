// Asynchronous reads and writes of the old kind.
// covers: io_setup io_destroy io_getevents io_submit io_cancel io_pgetevents
#include "guest.h"
#include <linux/aio_abi.h>

int main(void)
{
	aio_context_t context = 0;
	long made = nondet_outcome("io_setup", syscall(SYS_io_setup, 8, &context));
	char text[16] = "asynchronous";
	int fd = open("f", O_RDWR | O_CREAT, 0600);
	struct iocb request = {.aio_data = 77, .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd,
			       .aio_buf = (uintptr_t)text, .aio_nbytes = 12};
	struct iocb *list[1] = {&request};
	struct io_event event = {0};
	if (made == 0) {
		CHECK(syscall(SYS_io_submit, context, 1, list) == 1);
		CHECK(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1);
		nondet("event %llu result %lld", (unsigned long long)event.data, (long long)event.res);
		memset(text, 0, sizeof text);
		request.aio_lio_opcode = IOCB_CMD_PREAD;
		CHECK(syscall(SYS_io_submit, context, 1, list) == 1);
		CHECK(syscall(SYS_io_pgetevents, context, 1, 1, &event, NULL, NULL) == 1);
		nondet("read %s", text);
	} else {
		nondet_outcome("io_submit", syscall(SYS_io_submit, context, 1, list));
		nondet_outcome("io_getevents", syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
		nondet_outcome("io_pgetevents",
			       syscall(SYS_io_pgetevents, context, 1, 1, &event, NULL, NULL));
	}
	nondet_outcome("io_cancel", syscall(SYS_io_cancel, context, &request, &event));
	nondet_outcome("io_destroy", syscall(SYS_io_destroy, context));
	say("went on");
	return 0;
}
