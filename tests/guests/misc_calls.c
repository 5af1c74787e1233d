// Rows that ordinary programs hardly call: each once, in a way that changes nothing.
// covers: quotactl quotactl_fd add_key request_key keyctl lookup_dcookie uselib sysfs _sysctl
// covers: create_module init_module delete_module get_kernel_syms query_module finit_module
// covers: nfsservctl getpmsg putpmsg afs_syscall tuxcall security vserver set_thread_area
// covers: get_thread_area epoll_ctl_old epoll_wait_old modify_ldt iopl ioperm acct swapon swapoff
// covers: reboot kexec_load kexec_file_load name_to_handle_at open_by_handle_at lsm_get_self_attr
// covers: lsm_set_self_attr lsm_list_modules statmount listmount map_shadow_stack
// covers: landlock_create_ruleset landlock_add_rule landlock_restrict_self
#include "guest.h"
#include <linux/keyctl.h>

static long s(long number, const char *name, long a, long b, long c, long d, long e)
{
	return outcome(name, syscall(number, a, b, c, d, e));
}

// Rows that came or went between kernels, or where the tool may answer for itself.
static long n(long number, const char *name, long a, long b, long c, long d, long e)
{
	return nondet_outcome(name, syscall(number, a, b, c, d, e));
}

static void gone_from_the_kernel(void)
{
	static const struct {
		long number;
		const char *name;
	} rows[] = {
		{SYS_create_module, "create_module"}, {SYS_get_kernel_syms, "get_kernel_syms"},
		{SYS_query_module, "query_module"},   {SYS_nfsservctl, "nfsservctl"},
		{SYS_getpmsg, "getpmsg"},	      {SYS_putpmsg, "putpmsg"},
		{SYS_afs_syscall, "afs_syscall"},     {SYS_tuxcall, "tuxcall"},
		{SYS_security, "security"},	      {SYS_vserver, "vserver"},
		{SYS_set_thread_area, "set_thread_area"},
		{SYS_get_thread_area, "get_thread_area"},
		{SYS_epoll_ctl_old, "epoll_ctl_old"}, {SYS_epoll_wait_old, "epoll_wait_old"},
		{SYS_uselib, "uselib"},		      {SYS__sysctl, "_sysctl"},
		{SYS_lookup_dcookie, "lookup_dcookie"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		n(rows[i].number, rows[i].name, 0, 0, 0, 0, 0);
}

static void keys(void)
{
	char description[128] = "";
	long key = n(SYS_add_key, "add_key", (long)"user", (long)"guest", (long)"payload", 7,
		     KEY_SPEC_PROCESS_KEYRING);
	n(SYS_request_key, "request_key", (long)"user", (long)"absent", 0, 0, 0);
	if (key > 0) {
		nondet("key %ld", key);
		CHECK(syscall(SYS_keyctl, KEYCTL_READ, key, description, sizeof description) == 7);
		CHECK(memcmp(description, "payload", 7) == 0);
		CHECK(syscall(SYS_keyctl, KEYCTL_DESCRIBE, key, description, sizeof description) > 0);
		nondet("described as %s", description);
	}
	n(SYS_keyctl, "keyctl", KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0, 0, 0);
}

static void handles(void)
{
	struct {
		struct file_handle header;
		char space[128];
	} h = {{.handle_bytes = 128}, ""};
	int mount = -1;
	write_file("f", "x");
	if (outcome("name_to_handle_at", name_to_handle_at(AT_FDCWD, "f", &h.header, &mount, 0)) == 0)
		nondet("handle of %u bytes, mount %d", h.header.handle_bytes, mount);
	outcome("open_by_handle_at", open_by_handle_at(AT_FDCWD, &h.header, O_RDONLY));
}

static void security_modules(void)
{
	uint64_t ids[16];
	uint32_t size = sizeof ids;
	char context[1024];
	nondet("modules %ld", syscall(461, ids, &size, 0));
	size = sizeof context;
	n(459, "lsm_get_self_attr", 100, (long)context, (long)&size, 0, 0);
	n(460, "lsm_set_self_attr", 100, 0, 0, 0, 0);
	pid_t child = fork();
	if (child == 0) {
		uint64_t rights[2] = {1 << 1, 0}; // No writing to files.
		CHECK(syscall(SYS_prctl, 38, 1, 0, 0, 0) == 0);
		long rules = n(444, "landlock_create_ruleset", (long)rights, 8, 0, 0, 0);
		n(445, "landlock_add_rule", rules, 1, 0, 0, 0);
		n(446, "landlock_restrict_self", rules, 0, 0, 0, 0);
		if (rules >= 0)
			nondet_outcome("writing under landlock", open("f", O_WRONLY));
		_exit(0);
	}
	reap("restricted", child);
}

int main(void)
{
	char buffer[512];
	gone_from_the_kernel();
	keys();
	handles();
	security_modules();
	s(SYS_quotactl, "quotactl", -1, (long)"/absent", 0, 0, 0);
	n(443, "quotactl_fd", -1, 0, 0, 0, 0);
	n(SYS_sysfs, "sysfs", 3, 0, 0, 0, 0);
	s(SYS_init_module, "init_module", 0, 0, 0, 0, 0);
	s(SYS_finit_module, "finit_module", -1, (long)"", 0, 0, 0);
	s(SYS_delete_module, "delete_module", (long)"retrovane-no-such-module", O_NONBLOCK, 0, 0, 0);
	n(SYS_modify_ldt, "modify_ldt", 0, (long)buffer, sizeof buffer, 0, 0);
	n(SYS_iopl, "iopl", 0, 0, 0, 0, 0);
	n(SYS_ioperm, "ioperm", 0x80000, 1, 1, 0, 0);
	s(SYS_acct, "acct", (long)"/absent/file", 0, 0, 0, 0);
	s(SYS_swapon, "swapon", (long)"/absent/file", 0, 0, 0, 0);
	s(SYS_swapoff, "swapoff", (long)"/absent/file", 0, 0, 0, 0);
	s(SYS_reboot, "reboot with a wrong magic number", 0, 0, 0, 0, 0);
	n(SYS_kexec_load, "kexec_load", 0, 0, 0, 0x77777777, 0);
	n(SYS_kexec_file_load, "kexec_file_load", -1, -1, 0, 0, 0x77777777);
	n(457, "statmount", 0, 0, 0, 0, 0);
	n(458, "listmount", 0, 0, 0, 0, 0);
	n(453, "map_shadow_stack", 0, 0, 0, 0, 0);
	pid_t child = fork();
	if (child == 0)
		_exit(syscall(335) == -1 ? 0 : 1); // uretprobe: SIGILL where it exists.
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	nondet("uretprobe: status %x", status);
	return 0;
}
