// random SEED [KIND [OPERATIONS]]: some threads make random calls, and print a digest of all
// that they learned. A recording and its replay must agree to the last bit. What it does
// depends on the seed and on how its threads meet; it never waits for ever by itself.
//
// RANDOM_ONLY=NAME,NAME restricts it to these operations, RANDOM_SAYS=1 names each.
#include "on_files.h"
#include "on_memory.h"
#include "on_processes.h"
#include "on_signals.h"
#include "on_sockets.h"
#include "on_threads.h"
#include "on_time.h"

struct operation {
	const char *name;
	void (*run)(struct self *me);
};

#define ROW(name) {#name, name}
static const struct operation operations[] = {
	ROW(file_write_read), ROW(file_append), ROW(file_size), ROW(file_mapped), ROW(file_names), ROW(file_status),
	ROW(file_directory), ROW(file_descriptors), ROW(file_vectors), ROW(file_copied), ROW(file_locks),
	ROW(file_in_memory), ROW(file_attributes), ROW(file_of_proc), ROW(file_without_name), ROW(file_watched),
	ROW(file_stream), ROW(memory_heap), ROW(memory_mapped), ROW(memory_fixed), ROW(memory_protected),
	ROW(memory_shared), ROW(memory_of_system_v), ROW(memory_by_calls), ROW(memory_generated), ROW(memory_strings),
	ROW(memory_stack), ROW(signal_itself), ROW(signal_blocked), ROW(signal_descriptor), ROW(signal_from_timer),
	ROW(signal_to_thread), ROW(signal_suspended), ROW(signal_jumps), ROW(signal_faults), ROW(signal_stack),
	ROW(signal_actions), ROW(process_forked), ROW(process_vforked), ROW(process_spawned), ROW(process_again),
	ROW(process_talks), ROW(process_shares), ROW(process_orphaned), ROW(process_watched), ROW(process_facts),
	ROW(thread_lives), ROW(thread_cancelled), ROW(thread_locks), ROW(thread_conditions), ROW(thread_shared_lock),
	ROW(thread_futexes), ROW(thread_yields), ROW(socket_pair), ROW(socket_passes), ROW(socket_stream),
	ROW(socket_datagrams), ROW(socket_of_unix), ROW(wait_with_poll), ROW(wait_with_epoll), ROW(wait_for_room),
	ROW(time_read), ROW(time_of_processor), ROW(time_asleep), ROW(time_computed),
};
#define OPERATIONS ((long)(sizeof operations / sizeof *operations))

static const struct operation *chosen[OPERATIONS];
static long chosen_count;
static int says;

static int is_in_list(const char *list, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = list; (at = strstr(at, name)); at += length)
		if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == 0))
			return 1;
	return 0;
}

static void choose(void)
{
	const char *only = getenv("RANDOM_ONLY");
	for (long i = 0; i < OPERATIONS; i++)
		if (!only || is_in_list(only, operations[i].name))
			chosen[chosen_count++] = &operations[i];
	if (chosen_count == 0)
		_exit(2);
	says = getenv("RANDOM_SAYS") != NULL;
}

static void act(struct self *me, long count)
{
	while (count-- > 0) {
		const struct operation *next = chosen[below(me, chosen_count)];
		if (says) {
			char line[100];
			snprintf(line, sizeof line, "%ld %s %016lx %lu\n", (long)syscall(SYS_gettid), next->name,
				 (unsigned long)me->digest, (unsigned long)me->folded);
			write_line(line);
		}
		next->run(me);
	}
}

struct thread {
	struct self self;
	long operations;
};

static void *live(void *argument)
{
	struct thread *thread = argument;
	this_thread = &thread->self;
	act(&thread->self, thread->operations);
	this_thread = NULL;
	return NULL;
}

static void share(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		_exit(97);
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shared->between_processes, &attributes);
	pthread_spin_init(&spinning, 0);
	sem_init(&semaphore, 0, 0);
}

int main(int count, char **arguments)
{
	unsigned long seed = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;
	struct self me = {.seed = seed};
	long kind = count > 2 ? atol(arguments[2]) : below(&me, 100);
	long length = count > 3 ? atol(arguments[3]) : 5 + below(&me, 60);
	static char path[4096];
	ssize_t got = readlink("/proc/self/exe", path, sizeof path - 1);
	program_path = got > 0 ? path : arguments[0];
	choose();
	share();
	install_all();
	struct thread threads[8];
	pthread_t ids[8];
	long others = kind % 4 == 0 ? 0 : 1 + kind % 6, started = 0;
	for (; started < others; started++) {
		threads[started] = (struct thread){.self = {.seed = draw(&me)}, .operations = length};
		if (pthread_create(&ids[started], NULL, live, &threads[started]) != 0)
			break;
	}
	this_thread = &me;
	act(&me, length);
	for (long i = 0; i < started; i++) {
		pthread_join(ids[i], NULL);
		fold_value(&me, (long)threads[i].self.digest);
	}
	char line[64];
	snprintf(line, sizeof line, "digest %016lx\n", (unsigned long)me.digest);
	write_line(line);
	return (int)(seed & 63);
}
