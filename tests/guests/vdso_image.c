// A program that parses the vDSO's image by itself, as vdso(7) says: the dynamic section, the hash
// table, the versions. Each function answers as its system call does.
// not-by: write-protection sums
// covers: clock_gettime gettimeofday time clock_getres getcpu
#include "guest.h"
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

struct image {
	unsigned long base;
	const Elf64_Word *hash;
	const Elf64_Sym *symbols;
	const char *names;
	const Elf64_Half *versions;
	const Elf64_Verdef *defined;
	size_t bytes;
};

static unsigned hash_of(const char *name)
{
	unsigned long hash = 0, high;
	while (*name) {
		hash = (hash << 4) + (unsigned char)*name++;
		if ((high = hash & 0xf0000000))
			hash ^= high >> 24;
		hash &= ~high;
	}
	return hash;
}

static int parse(unsigned long base, struct image *image)
{
	const Elf64_Ehdr *header = (void *)base;
	const Elf64_Phdr *parts = (void *)(base + header->e_phoff);
	const Elf64_Dyn *dynamic = NULL;
	memset(image, 0, sizeof *image);
	image->base = base;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	for (int i = 0; i < header->e_phnum; i++) {
		if (parts[i].p_type == PT_LOAD)
			image->bytes = parts[i].p_memsz;
		if (parts[i].p_type == PT_DYNAMIC)
			dynamic = (void *)(base + parts[i].p_offset);
	}
	if (!dynamic)
		return 0;
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		void *there = (void *)(base + dynamic->d_un.d_ptr);
		switch (dynamic->d_tag) {
		case DT_HASH: image->hash = there; break;
		case DT_SYMTAB: image->symbols = there; break;
		case DT_STRTAB: image->names = there; break;
		case DT_VERSYM: image->versions = there; break;
		case DT_VERDEF: image->defined = there; break;
		}
	}
	return image->hash && image->symbols && image->names && image->versions && image->defined;
}

static int has_version(const struct image *image, unsigned index, const char *version)
{
	const Elf64_Verdef *defined = image->defined;
	for (;;) {
		if (!(defined->vd_flags & VER_FLG_BASE) && (defined->vd_ndx & 0x7fff) == (index & 0x7fff)) {
			const Elf64_Verdaux *name = (void *)((char *)defined + defined->vd_aux);
			return defined->vd_hash == hash_of(version)
				&& strcmp(image->names + name->vda_name, version) == 0;
		}
		if (!defined->vd_next)
			return 0;
		defined = (void *)((char *)defined + defined->vd_next);
	}
}

static void *find(const struct image *image, const char *name)
{
	unsigned buckets = image->hash[0];
	const Elf64_Word *bucket = image->hash + 2, *chain = bucket + buckets;
	for (unsigned at = bucket[hash_of(name) % buckets]; at != STN_UNDEF; at = chain[at]) {
		const Elf64_Sym *symbol = image->symbols + at;
		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF
		    && strcmp(image->names + symbol->st_name, name) == 0
		    && has_version(image, image->versions[at], "LINUX_2.6"))
			return (void *)(image->base + symbol->st_value);
	}
	return NULL;
}

static long nanoseconds(const struct timespec *t)
{
	return t->tv_sec * 1000000000L + t->tv_nsec;
}

static void call_all(const char *who)
{
	struct image image;
	unsigned long base = getauxval(AT_SYSINFO_EHDR);
	if (!base || !parse(base, &image)) {
		say("%s: no image", who);
		return;
	}
	const char *names[] = {"clock_gettime", "gettimeofday", "time", "clock_getres", "getcpu"};
	void *functions[5];
	for (int i = 0; i < 5; i++) {
		char name[64];
		snprintf(name, sizeof name, "__vdso_%s", names[i]);
		functions[i] = find(&image, name);
		say("%s: %s %s", who, name, !functions[i] ? "is missing" : functions[i] == find(&image, names[i]) ? "is found" : "differs");
		if (!functions[i])
			return;
	}
	CHECK(!find(&image, "__vdso_nothing"));
	int (*gettime)(clockid_t, struct timespec *) = functions[0];
	int (*timeofday)(struct timeval *, struct timezone *) = functions[1];
	time_t (*seconds)(time_t *) = functions[2];
	int (*getres)(clockid_t, struct timespec *) = functions[3];
	long (*cpu_of)(unsigned *, unsigned *, void *) = functions[4];

	struct timespec before, there, after, resolution[2];
	struct timeval now;
	time_t stored = 0;
	unsigned cpu = ~0u, node = ~0u;
	CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &before) == 0);
	CHECK(gettime(CLOCK_MONOTONIC, &there) == 0);
	CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &after) == 0);
	say("%s: clock %s", who, nanoseconds(&before) <= nanoseconds(&there) && nanoseconds(&there) <= nanoseconds(&after) ? "agrees" : "differs");
	say("%s: bad clock %d", who, gettime(12345, &there));
	CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &before) == 0);
	CHECK(timeofday(&now, NULL) == 0);
	CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &after) == 0);
	long in_between = now.tv_sec * 1000000L + now.tv_usec;
	say("%s: time of day %s", who, nanoseconds(&before) / 1000 <= in_between && in_between <= nanoseconds(&after) / 1000 ? "agrees" : "differs");
	time_t told = seconds(&stored);
	say("%s: time %s", who, told == stored && told >= before.tv_sec - 1 && told <= after.tv_sec + 1 ? "agrees" : "differs");
	CHECK(getres(CLOCK_MONOTONIC, &resolution[0]) == 0);
	CHECK(syscall(SYS_clock_getres, CLOCK_MONOTONIC, &resolution[1]) == 0);
	say("%s: resolution %s", who, memcmp(resolution, resolution + 1, sizeof *resolution) ? "differs" : "agrees");
	CHECK(cpu_of(&cpu, &node, NULL) == 0);
	say("%s: processor %s", who, cpu < 4096 && node < 4096 ? "agrees" : "differs");
	long sum = 0;
	for (int i = 0; i < 20000; i++) {
		CHECK(gettime(CLOCK_REALTIME, &there) == 0);
		sum += there.tv_nsec;
	}
	say("%s: read often %s", who, sum >= 0 ? "agrees" : "differs");
}

static int show(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	if (info->dlpi_addr == *(unsigned long *)base)
		say("the linker knows it");
	return 0;
}

// Where /proc/self/maps has it.
static unsigned long listed(unsigned long *end)
{
	char line[512];
	unsigned long start = 0, from, to;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps);
	while (fgets(line, sizeof line, maps))
		if (strcmp(line + strlen(line) - 7, "[vdso]\n") == 0 && sscanf(line, "%lx-%lx r-xp 00000000 00:00 0 ", &from, &to) == 2) {
			CHECK(start == 0 && line[72] == ' ' && line[73] == '[');
			start = from;
			*end = to;
		}
	fclose(maps);
	return start;
}

// The same in parts of few bytes.
static int listed_in_parts(size_t part)
{
	static char text[65536];
	size_t filled = 0;
	ssize_t got;
	int maps = open("/proc/self/maps", O_RDONLY);
	CHECK(maps >= 0);
	while ((got = read(maps, text + filled, part)) > 0)
		filled += got;
	close(maps);
	CHECK(got == 0 && filled < sizeof text - 100 && text[filled - 1] == '\n');
	return strstr(text, " [vdso]\n") != NULL;
}

// Programs that restore others put it elsewhere, or take it away.
static void move_it(void)
{
	unsigned long end = 0, start = listed(&end), base = getauxval(AT_SYSINFO_EHDR);
	say("listed %s", start == base ? "where it is" : "elsewhere");
	say("in parts %d %d %d %d", listed_in_parts(1), listed_in_parts(7), listed_in_parts(100), listed_in_parts(4000));
	size_t bytes = end - start;
	char *place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(place != MAP_FAILED);
	CHECK(mremap((void *)start, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
	CHECK(memcmp(place, ELFMAG, SELFMAG) == 0);
	say("moved %s", listed(&end) == (unsigned long)place ? "and listed there" : "and not found");
	CHECK(munmap(place, bytes) == 0);
	say("taken away %s", listed(&end) == 0 ? "and not listed" : "and still listed");
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		call_all("image");
		return 0;
	}
	call_all("parent");
	unsigned long base = getauxval(AT_SYSINFO_EHDR);
	dl_iterate_phdr(show, &base);
	pid_t child = fork();
	if (child == 0) {
		call_all("child");
		_exit(0);
	}
	reap("child", child);
	child = fork();
	if (child == 0) {
		move_it();
		_exit(0);
	}
	reap("mover", child);
	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", argv[0], "again", NULL);
		_exit(1);
	}
	reap("image", child);
	return 0;
}
