// Runs a program under a seccomp filter that refuses some calls with EPERM, as
// sandboxes do. Usage: refuse NAME[,NAME...] PROGRAM [ARGUMENTS...]
// Names: personality, userfaultfd, perf_event_open, process_vm_readv, ptrace,
// seccomp, dispatch (PR_SET_SYSCALL_USER_DISPATCH), docker (what Docker's
// default profile refuses).
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter program[128];
static int length;

static void add(struct sock_filter instruction)
{
	program[length++] = instruction;
}

static void refuse(int number)
{
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

// Refuses a call whose argument has the value, or with `other` all other values but 0.
static void refuse_argument(int number, int index, unsigned value, int other)
{
	size_t place = offsetof(struct seccomp_data, args) + 8 * index;
	int more = other ? 5 : 4;
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, more - 1));
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, place));
	if (other) {
		add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0));
		add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
	} else {
		add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
	}
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
}

static void add_rule(const char *name)
{
	const int docker[] = {SYS_userfaultfd, SYS_perf_event_open, SYS_bpf, SYS_keyctl, SYS_add_key,
		SYS_request_key, SYS_mount, SYS_umount2, SYS_setns, SYS_unshare, SYS_kexec_load,
		SYS_open_by_handle_at, SYS_init_module, SYS_pivot_root, SYS_quotactl, SYS_swapon,
		SYS_move_pages, SYS_sysfs, SYS_iopl, SYS_ioperm, 425, 426, 427};
	if (!strcmp(name, "personality"))
		refuse_argument(SYS_personality, 0, 0xffffffff, 1);
	else if (!strcmp(name, "userfaultfd"))
		refuse(SYS_userfaultfd);
	else if (!strcmp(name, "perf_event_open"))
		refuse(SYS_perf_event_open);
	else if (!strcmp(name, "process_vm_readv"))
		refuse(SYS_process_vm_readv);
	else if (!strcmp(name, "ptrace"))
		refuse(SYS_ptrace);
	else if (!strcmp(name, "seccomp"))
		refuse(SYS_seccomp);
	else if (!strcmp(name, "dispatch"))
		refuse_argument(SYS_prctl, 0, 59, 0);
	else if (!strcmp(name, "docker")) {
		add_rule("personality");
		for (size_t i = 0; i < sizeof docker / sizeof *docker; i++)
			refuse(docker[i]);
	} else {
		fprintf(stderr, "refuse: nothing is known as %s\n", name);
		exit(125);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 125;
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ","))
		add_rule(name);
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	struct sock_fprog filter = {length, program};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		perror("refuse");
		return 125;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
