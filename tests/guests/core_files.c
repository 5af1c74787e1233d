// What a process that ends itself by a signal leaves in its core file: where it was, and what its
// registers held. A machine that puts core files elsewhere shows none.
// covers: tgkill tkill kill
#include "guest.h"
#include <elf.h>
#include <sys/procfs.h>
#include <sys/resource.h>
#include <sys/user.h>

#define MARK 0x1122334455667788

// Like the call, with the mark in rbx and xmm7.
long send_marked(long number, long a, long b, long c);
extern const char behind_the_call[];
__asm__("send_marked:\n"
	"	push %rbx\n"
	"	movabs $0x1122334455667788, %rbx\n"
	"	movq %rbx, %xmm7\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	syscall\n"
	"	.global behind_the_call\n"
	"behind_the_call:\n"
	"	pop %rbx\n"
	"	ret\n");

static void show_registers(const struct elf_prstatus *status)
{
	struct user_regs_struct registers;
	_Static_assert(sizeof registers == sizeof status->pr_reg, "the same");
	memcpy(&registers, status->pr_reg, sizeof registers);
	say("signal %d, behind the call %d, result %lld, rbx %d", status->pr_cursig,
	    registers.rip == (uintptr_t)behind_the_call, (long long)registers.rax,
	    registers.rbx == MARK);
}

// The first thread's notes: it is the one that the process ended by.
static void show(const char *path)
{
	static char notes[1 << 16];
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	int fd = open(path, O_RDONLY), shown = 0;
	if (fd < 0) {
		say("no core file");
		return;
	}
	CHECK(read(fd, &header, sizeof header) == sizeof header);
	CHECK(pread(fd, &segment, sizeof segment, header.e_phoff) == sizeof segment);
	CHECK(segment.p_type == PT_NOTE);
	ssize_t bytes = pread(fd, notes, sizeof notes, segment.p_offset);
	for (ssize_t at = 0; at + (ssize_t)sizeof(Elf64_Nhdr) < bytes && shown < 2;) {
		Elf64_Nhdr *note = (Elf64_Nhdr *)(notes + at);
		char *content = notes + at + sizeof *note + ((note->n_namesz + 3) & ~3U);
		if (note->n_type == NT_PRSTATUS) {
			show_registers((struct elf_prstatus *)content);
			shown++;
		} else if (note->n_type == NT_FPREGSET) {
			struct user_fpregs_struct *vectors = (struct user_fpregs_struct *)content;
			uint64_t low;
			memcpy(&low, &vectors->xmm_space[7 * 4], 8);
			say("xmm7 %d", low == MARK);
			shown++;
		}
		at = content - notes + ((note->n_descsz + 3) & ~3U);
	}
	close(fd);
	CHECK(unlink(path) == 0);
}

static void end_by(const char *what, long number, int signal)
{
	pid_t child = fork();
	if (child == 0) {
		long pid = getpid();
		if (number == SYS_tgkill)
			send_marked(number, pid, pid, signal);
		else
			send_marked(number, pid, signal, 0);
		_exit(1);
	}
	int status;
	char path[32];
	CHECK(waitpid(child, &status, 0) == child);
	say("%s: signal %d", what, WTERMSIG(status));
	snprintf(path, sizeof path, "core.%d", child);
	show(access(path, F_OK) == 0 ? path : "core");
}

int main(void)
{
	struct rlimit limit;
	// A shell ignores it for what is in the background.
	signal(SIGQUIT, SIG_DFL);
	CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
	end_by("tgkill", SYS_tgkill, SIGABRT);
	end_by("tkill", SYS_tkill, SIGSEGV);
	end_by("kill", SYS_kill, SIGQUIT);
	end_by("no core", SYS_kill, SIGTERM);
	return 0;
}
