/* Every kind of store into the region, each of which has to be saved before it is made: with RETROVANE_MIRROR_CHECK=1 all
 * are, and what changed without is a difference. Prints one line for each kind. */
#define _GNU_SOURCE
#include <retrovane-mirror.h>

#include <immintrin.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static rv_mirror *region;
static int failures;

static void look(const char *kind)
{
	uintptr_t at[4];
	size_t count = rv_mirror_differences(region, at, 4);
	printf("%-28s %s\n", kind, count ? "DIFFERS" : "ok");
	if (count) {
		printf("    %zu, first at %#lx\n", count, (unsigned long)at[0]);
		failures++;
	}
	/* What was once saved, by allocation too, is no difference until the next checkpoint: each kind begins behind one. */
	int64_t checkpoint = rv_mirror_checkpoint(region, 0);
	if (checkpoint < 0 || rv_mirror_wait(region, checkpoint, -1) < 0)
		failures++;
	rv_mirror_wait_idle(region);
}

struct mixed {
	char byte;
	short half;
	int word;
	long wide;
	float single;
	double real;
	long double extended;
	unsigned bits : 5, more : 11;
	char text[37];
	__int128 huge;
};

struct big {
	long numbers[100];
};

#define NEVER __attribute__((noinline))

NEVER static void scalars(struct mixed *m)
{
	m->byte = 1;
	m->half = 2;
	m->word = 3;
	m->wide = 4;
	m->single = 5.5f;
	m->real = 6.5;
	m->extended = 7.5L;
	m->bits = 8;
	m->more = 900;
	m->huge = ((__int128)1 << 100) + 5;
	m->wide += 10;
	volatile int *changing = &m->word;
	*changing = 33;
}

struct sparse {
	struct sparse *next;
	char tag, unused[3], other;
	char text[5000];
	long double wide[3];
	short last;
};

/* Several members of one object, near and far, with others between them. */
NEVER static void members(struct sparse *s, char *end)
{
	s[0].next = s;
	s[0].tag = 1;
	s[0].other = 2;
	s[0].text[1] = 3;
	s[0].text[4999] = 4;
	s[0].last = 5;
	s[1] = (struct sparse){s, 6};
	end[-1] = 7;
	end[-9] = 8;
	end[3] = 9;
	end[4] = 10;
	end[5] = 11;
	memcpy(end + 16, "13 bytes, so.", 13);
	memcpy(end + 40, "and thirty-one, in one constant", 31);
	memset(end + 100, 0, 77);
}

/* Addresses that are there only behind other stores, which may be to where they are read. */
NEVER static void chained(struct sparse *s, struct sparse **where, long at)
{
	s->next = s + 1;
	s->tag = 12;
	s->next->tag = 13;
	s->next->next = s + 2;
	s->next->next->text[at] = 14;
	*where = s;
	(*where)->text[at * 2] = 15;
	s[at & 1].text[3 * at] = 16;
	where[at & 3] = s + 1;
	where[at & 3]->last = 17;
}

/* More objects than one comparison has room for, some of whose sizes are not known. */
NEVER static void many(char *a, char *b, char *c, char *d, char *e, long *f, int *g, const char *from, size_t n)
{
	a[1] = 1;
	memcpy(b + n, from, n);
	c[n] = 3;
	memset(d, 4, n / 2);
	e[3 * n] = 5;
	f[n] = 6;
	g[n] = 7;
	memmove(a + 10, a + 9, n);
	b[0] = c[0] = d[50] = e[0] = 8;
	memset(c + 100, 9, n - 16);
	a[1] = 10;
}

/* The last store to a place counts, by whichever pointer. */
NEVER static void aliases(long *a, long *b, double *c, char *d)
{
	*a = 1;
	*b = 2;
	*a = 3;
	asm volatile("" : : : "memory");
	b[1] = 4;
	a[1] = 5;
	asm volatile("" : : : "memory");
	a[2] = 6;
	d[1] = 7;
	asm volatile("" : : : "memory");
	*c = 8;
	d[4] = 9;
	*(int *)(d + 3) = 10;
}

#define ALONE(type, name)                                                                                            \
	NEVER static void alone_##name(type *to, long at, type value)                                                    \
	{                                                                                                                \
		to[at] = value;                                                                                              \
	}                                                                                                                \
	NEVER static void number_##name(char *to)                                                                        \
	{                                                                                                                \
		*(type *)(to + 1000) = (type){(char)-3};                                                                     \
	}
ALONE(char, char)
ALONE(short, short)
ALONE(int, int)
ALONE(long, long)
ALONE(float, float)
ALONE(double, double)
ALONE(_Bool, bool)
ALONE(__int128, huge)
ALONE(long double, extended)
ALONE(__m128i, vector)
ALONE(__m128, floats)

/* Each store by itself, of a value in a register or a number. */
NEVER static void alone(char *p, long seed, double real)
{
	alone_char(p, 1, seed);
	alone_short((short *)p, 5, seed);
	alone_int((int *)p, 5, seed);
	alone_long((long *)p, 5, seed);
	alone_float((float *)p, 15, real);
	alone_double((double *)p, 9, real);
	alone_bool((_Bool *)p, 90, seed);
	alone_huge((__int128 *)p, 7, seed);
	alone_extended((long double *)p, 8, real);
	alone_vector((__m128i *)p, 10, _mm_set1_epi32(seed));
	alone_floats((__m128 *)p, 11, _mm_set1_ps(real));
	number_char(p);
	number_short(p + 10);
	number_int(p + 20);
	number_long(p + 32);
	number_float(p + 40);
	number_double(p + 48);
	number_bool(p + 56);
	*(void **)(p + 1100) = p;
	asm volatile("" : : : "memory");
	*(void **)(p + 1108) = NULL;
	asm volatile("" : : : "memory");
	*(const char **)(p + 1116) = "a constant that is no number";
	asm volatile("" : : : "memory");
	*(long *)(p + 1124) = 0x123456789abcdef;
}

/* Copies whose size is known, by themselves and in loops. */
NEVER static void copies(char *to, const char *from, int n)
{
	memcpy(to + 4090, from, 16);
	memmove(to + 1, to, 24);
	memset(to + 200, 7, 40);
	memcpy(to + 300, from, 100);
	for (int i = 0; i < n; i++)
		memcpy(to + 8192 + 16 * i, from + i, 16);
	for (int i = 0; i < n; i++)
		memcpy(to + 12288 + 20 * i, from + i, 16);
	char *at = to + 16300;
	do {
		memcpy(at, from, 16);
		memcpy(at + 16, from + 16, 16);
		at += 32;
	} while (at < to + 16300 + 16 * n);
	for (int i = 0; i < n; i++) {
		memset(to + 20000 + 64 * i, i, 32);
		memcpy(to + 20032 + 64 * i, from, (size_t)i & 31);
	}
}

/* Copies whose size is not known until then, across a page's end and over themselves: what the same copies give elsewhere. */
NEVER static void lengths(char *to)
{
	char wanted[600];
	for (size_t n = 0; n <= 200; n++)
		for (int distance = -40; distance <= 40; distance += n & 7 ? 40 : 5) {
			for (int i = 0; i < 600; i++)
				wanted[i] = to[i] = (char)(i * 7 + (int)n);
			memmove(to + 200 + distance, to + 200, n);
			memmove(wanted + 200 + distance, wanted + 200, n);
			memcpy(to + 450, wanted + 300, n & 127);
			memcpy(wanted + 450, to + 300, n & 127);
			if (memcmp(to, wanted, 600))
				failures++;
		}
}

/* The pointer is to the stack in one call, and into the region in another. */
NEVER static void through(int *where, int depth)
{
	*where = depth;
	if (depth)
		through(where + 1, depth - 1);
}

/* Always to the stack. */
NEVER static int outside(int *where)
{
	through(where, 3);
	*where += 1;
	return where[0] + where[3];
}

NEVER static void unaligned(char *p, long value)
{
	/* Across the end of a page, too. */
	for (int at = 4080; at < 4100; at += 5) {
		memcpy(p + at, &value, 8);
		memcpy(p + at + 4096, &value, 4);
		memcpy(p + at + 8192, &value, 2);
	}
}

NEVER static struct big make(long seed)
{
	struct big b;
	for (int i = 0; i < 100; i++)
		b.numbers[i] = seed * i;
	return b;
}

NEVER static void structures(struct big *to, const struct big *from)
{
	to[0] = *from;
	to[1] = make(7);
	to[2] = (struct big){{1, 2, 3}};
}

NEVER static void ranges(char *p, size_t n)
{
	memset(p, 0x5a, n);
	memcpy(p + n, p, n / 2);
	memmove(p + 3, p, n / 2);
	p[n - 1] = 1;
}

NEVER static void printed(char *p, const char *format, ...)
{
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	vsprintf(p, format, arguments);
	vsnprintf(p + 100, 8, format, again);
	va_end(again);
	va_end(arguments);
}

/* Functions of libc's that write where they are told: what they wrote is looked at, too. */
NEVER static void strings(char *p, const char *from, size_t n)
{
	strcpy(p, from);
	strcat(p, from);
	strncat(p, from, 3);
	if (stpcpy(p + 100, from) != p + 100 + n || strcmp(p, "a stringa stringa s"))
		failures++;
	strncpy(p + 200, from, n * 2);
	bcopy(from, p + 300, n);
	bzero(p + 302, n - 4);
	if (mempcpy(p + 400, from, n) != p + 400 + n)
		failures++;
	if (snprintf(p + 500, n, "%d and %s", 42, from) != 15 || strcmp(p + 500, "42 and "))
		failures++;
	if (sprintf(p + 600, "%d, %s and %.1f", 77, from, 2.5) != 20 || strcmp(p + 600, "77, a string and 2.5"))
		failures++;
	printed(p + 700, "%s, %d, %.2f", from, 5, 0.25);
	if (strcmp(p + 700, "a string, 5, 0.25") || strcmp(p + 800, "a strin"))
		failures++;
}

/* As with _FORTIFY_SOURCE, where the size of the object is known, and where it is not. */
NEVER static void checked(char *p, const char *from, size_t n)
{
	__builtin___memcpy_chk(p, from, n, 40);
	__builtin___memmove_chk(p + 50, from, n, 40);
	__builtin___memset_chk(p + 100, 'x', n, 40);
	__builtin___strcpy_chk(p + 150, from, 40);
	__builtin___strcat_chk(p + 150, from, 40);
	__builtin___strncat_chk(p + 150, from, 2, 40);
	__builtin___stpcpy_chk(p + 200, from, 40);
	__builtin___strncpy_chk(p + 250, from, n + 4, 40);
	__builtin___sprintf_chk(p + 300, 0, 40, "%s %d", from, 5);
	__builtin___snprintf_chk(p + 350, 9, 0, 40, "%s %d", from, 5);
	p += 1000;
	__builtin___strcpy_chk(p + 150, from, -1);
	__builtin___strcat_chk(p + 150, from, -1);
	__builtin___strncat_chk(p + 150, from, 2, -1);
	__builtin___stpcpy_chk(p + 200, from, -1);
	if (__builtin___sprintf_chk(p + 300, 1, -1, "%s %d %.1f", from, 5, 1.5) != 14 || strcmp(p + 300, "a string 5 1.5"))
		failures++;
	if (strcmp(p + 150, "a stringa stringa ") || strcmp(p - 850, "a stringa stringa "))
		failures++;
}

NEVER static void loops(int *p, int n, int seed)
{
	for (int i = 0; i < n; i++)
		p[i] = i * seed;
	for (int i = 0; i < n; i += 3)
		p[i] ^= 0x55;
}

struct pair {
	int key;
	int value;
};

/* Loops over ranges, which may be left before or behind the stores of a turn, or have none. */
NEVER static long ranges_in_loops(char *to, const char *from, struct pair *pairs, long *total, int n)
{
	char *at = to;
	/* Up to a byte that is copied, too. */
	while ((*at++ = *from++) != 0)
		;
	/* Up to a byte that is not. */
	for (; *from != '!'; from++)
		*at++ = *from ^ 1;
	/* Downward. */
	for (int i = n; i-- > 0;)
		to[200 + i] = (char)(i + n);
	/* Two members in each turn, and one alone with gaps. */
	for (int i = 0; i < n; i++) {
		pairs[i].value = n;
		pairs[i].key = i;
	}
	for (int i = 0; i < n; i++)
		pairs[n + i].value = i * 3;
	/* Some turns only. */
	for (int i = 0; i < n; i++)
		if (from[i & 3] & 1)
			pairs[2 * n + i].key = i;
	/* Overlapping, as a copy that writes more than it has to. */
	for (int i = 0; i < n; i++)
		memcpy(to + 1000 + 4 * i, from, 8);
	/* Always the same place, beside places that may be it. */
	for (int i = 0; i < n; i++)
		*total += to[i] + i;
	/* Left from the middle of a turn. */
	for (int i = 0; i < n; i++) {
		pairs[3 * n + i].key = i;
		if (*total == i)
			break;
		pairs[3 * n + i].value = i;
	}
	return at - to;
}

NEVER static void vectors(char *p)
{
	__m128i ones = _mm_set1_epi32(0x01010101);
	_mm_store_si128((__m128i *)p, ones);
	_mm_storeu_si128((__m128i *)(p + 4090), ones);
	_mm_stream_si128((__m128i *)(p + 64), ones);
	_mm_stream_si32((int *)(p + 128), 7);
	_mm_storel_epi64((__m128i *)(p + 160), ones);
	_mm_sfence();
}

/* Some lanes of vectors. */
__attribute__((noinline, target("avx2,avx512f"))) static void masked(char *p, char *end, int *some, const int *which, int n)
{
	__m512i numbers = _mm512_set1_epi32(0x01020304);
	_mm512_mask_storeu_epi32(p, 0x5a5a, numbers);
	_mm512_mask_storeu_epi32(end - 8, 0x0003, numbers);
	_mm512_mask_compressstoreu_epi32(p + 100, 0x1f0f, numbers);
	_mm256_storeu_si256((__m256i *)(p + 200), _mm256_set1_epi8(9));
	for (int i = 0; i < n; i++)
		if (which[i] & 1)
			some[i] = i;
	for (int i = 0; i < n; i++)
		some[200 + 3 * which[i]] = i;
}

/* 16 bytes at once. */
__attribute__((noinline, target("cx16"))) static void wide(__int128 *at)
{
	__int128 value = ((__int128)7 << 70) + 1;
	if (!__sync_bool_compare_and_swap(at, (__int128)0, value) || *at != value)
		failures++;
	if (__sync_bool_compare_and_swap(at, (__int128)0, value) || *at != value)
		failures++;
}

NEVER static void atomics(void *at)
{
	_Atomic unsigned char *b = at;
	_Atomic short *h = (void *)((char *)at + 8);
	_Atomic int *w = (void *)((char *)at + 16);
	_Atomic long *d = (void *)((char *)at + 24);
	void *_Atomic *p = (void *)((char *)at + 32);
	atomic_store(b, 200);
	atomic_fetch_add(b, 100);
	atomic_store_explicit(h, -3, memory_order_relaxed);
	atomic_fetch_sub(h, 4);
	atomic_store(w, 5);
	int expected = 5;
	if (!atomic_compare_exchange_strong(w, &expected, 6) || *w != 6)
		failures++;
	expected = 99;
	if (atomic_compare_exchange_strong(w, &expected, 7) || expected != 6)
		failures++;
	atomic_fetch_or(w, 0x100);
	atomic_fetch_and(w, 0x1ff);
	atomic_fetch_xor(w, 1);
	if (atomic_exchange(d, 1L << 40) != 0 || *d != 1L << 40)
		failures++;
	__atomic_fetch_nand((long *)d, 3, __ATOMIC_SEQ_CST);
	__sync_fetch_and_add((long *)d, 9);
	atomic_store(p, at);
	if (*b != 44 || *h != -7 || *w != 0x107)
		failures++;
}

NEVER static void assembly(long *p)
{
	asm("movq $77, %0" : "=m"(p[0]));
	asm volatile("addq $5, %0" : "+m"(p[0]) : : "cc");
	asm volatile("" : : : "memory");
	asm volatile("pause" : : : "memory");
	if (p[0] != 82)
		failures++;
}

static struct {
	ssize_t (*reads)(int, void *, size_t);
	void *(*copies)(void *, const void *, size_t);
	char *(*strings)(char *, const char *);
} by_pointer = {read, memcpy, strcpy};

NEVER static void from_files(char *p)
{
	int ends[2];
	if (pipe(ends) || write(ends[1], "from a pipe", 11) != 11 || read(ends[0], p, 100) != 11)
		failures++;
	/* By a pointer in memory, and by one in a variable. */
	ssize_t (*volatile again)(int, void *, size_t) = by_pointer.reads;
	if (again != read || write(ends[1], "and again", 9) != 9 || again(ends[0], p + 200, 100) != 9)
		failures++;
	by_pointer.copies(p + 300, "copied", 6);
	by_pointer.strings(p + 350, "a string");
	close(ends[0]);
	close(ends[1]);
	if (memcmp(p, "from a pipe", 12) || memcmp(p + 200, "and again", 10) || strcmp(p + 300, "copied") ||
	    strcmp(p + 350, "a string"))
		failures++;
	FILE *file = tmpfile();
	if (!file || fputs("one line\nand another\n", file) < 0 || fflush(file))
		failures++;
	if (pread(fileno(file), p + 400, 8, 4) != 8 || memcmp(p + 400, "line\nand", 9))
		failures++;
	rewind(file);
	if (fgets(p + 500, 50, file) != p + 500 || strcmp(p + 500, "one line\n"))
		failures++;
	if (fread(p + 600, 4, 10, file) != 3 || memcmp(p + 600, "and another\n", 13))
		failures++;
	fclose(file);
	if (getrandom(p + 700, 64, 0) != 64 || readlink("/proc/self/exe", p + 800, 100) <= 0)
		failures++;
}

NEVER static void from_sockets(char *p)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) || send(ends[0], "first", 5, 0) != 5 || send(ends[0], "second", 6, 0) != 6)
		failures++;
	socklen_t *length = (socklen_t *)(p + 200);
	*length = 100;
	if (recv(ends[1], p, 50, 0) != 5 || recvfrom(ends[1], p + 100, 50, 0, (struct sockaddr *)(p + 300), length) != 6)
		failures++;
	if (memcmp(p, "first", 6) || memcmp(p + 100, "second", 7))
		failures++;
	close(ends[0]);
	close(ends[1]);
}

/* What is stored behind a call is saved behind it: a checkpoint may begin there. */
NEVER static void around(long *p)
{
	p[0] = 1;
	int64_t checkpoint = rv_mirror_checkpoint(region, 0);
	p[8] = 2;
	p[1] = 3;
	if (checkpoint < 0 || rv_mirror_wait(region, checkpoint, -1) < 0)
		failures++;
	p[16] = 4;
	p[0] = 5;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
	struct rv_mirror_options options = {.size = 4 << 20};
	if (argc < 2 || rv_mirror_open(argv[1], &options, &region) < 0) {
		fprintf(stderr, "%s\n", rv_mirror_error());
		return 2;
	}
	char *p = rv_mirror_calloc(region, 1, 1 << 20);
	rv_mirror_set_root(region, "block", p);
	look("allocation");
	scalars((void *)p);
	look("scalars");
	members((void *)(p + 700000), p + 720896);
	int kept[4];
	if (outside(kept) != 4)
		failures++;
	through((int *)(p + 730000), 20);
	chained((void *)(p + 820000), (void *)(p + 836000), 31);
	look("members");
	for (int n = 16; n < 60; n += 7)
		many(p + 850000, p + 851000, p + 852000, p + 853000, p + 854000, (long *)(p + 855000), (int *)(p + 856000), p, n);
	look("many objects");
	char *same = p + 870000;
	aliases((long *)same, (long *)same, (double *)(same + 64), same + 64);
	aliases((long *)(same + 200), (long *)(same + 232), (double *)(same + 264), same + 217);
	if (*(long *)same != 3)
		failures++;
	look("aliases");
	for (int seed = -1; seed < 4; seed++)
		alone(p + 880000 + 1600 * seed, seed, seed * 1.25);
	look("alone");
	for (int n = 1; n < 40; n += 6)
		copies(p + 900000 + 64 * n, p + 880000, n);
	look("copies");
	char *page = (char *)(((uintptr_t)p + 840000) & ~(uintptr_t)4095);
	lengths(page - 300);
	lengths(page - 520);
	look("copies of any length");
	unaligned(p + 16384, 0x1122334455667788);
	look("unaligned");
	struct big local = make(3);
	structures((void *)(p + 65536), &local);
	look("structures");
	ranges(p + 131072, 5000);
	look("ranges");
	strings(p + 140000, "a string", 8);
	look("strings");
	checked(p + 145000, "a string", 8);
	look("checked functions");
	loops((void *)(p + 196608), 10000, argc);
	look("loops");
	for (int n = 0; n < 40; n += n < 5 ? 1 : 7)
		ranges_in_loops(p + 740000 + 64 * n, "some text\0and more of it!abcd", (void *)(p + 760000 + 1000 * n),
		                (void *)(p + 780000), n);
	long sum = 0;
	if (ranges_in_loops(p + 745000, "some text\0and more of it!abcd", (void *)(p + 800000), &sum, 9) != 24 ||
	    memcmp(p + 745000, "some text\0`oe!lnsd!ng!hu", 24))
		failures++;
	look("ranges in loops");
	vectors(p + 262144);
	look("vectors");
	if (__builtin_cpu_supports("avx512f")) {
		int which[50];
		for (int i = 0; i < 50; i++)
			which[i] = i * 7 % 50;
		masked(p + 270000, (char *)((uintptr_t)(p + 280000) & ~(uintptr_t)4095), (int *)(p + 290000), which, 50);
	}
	look("masked vectors");
	wide((__int128 *)(p + 300000));
	look("16 bytes at once");
	atomics(p + 327680);
	look("atomics");
	assembly((void *)(p + 393216));
	look("assembly");
	from_files(p + 458752);
	from_sockets(p + 460000);
	look("read");
	loops((void *)(p + 524288), 100, -7);
	qsort(p + 524288, 100, sizeof(int), by_number);
	look("qsort");
	around((long *)(p + 600000));
	look("around a checkpoint");
	/* While a checkpoint is copied all of it is the same. */
	int64_t checkpoint = rv_mirror_checkpoint(region, 1);
	for (int round = 0; round < 50; round++) {
		scalars((void *)(p + 4096 * round));
		loops((void *)(p + 196608), 10000, round);
		atomics(memset(p + 327680, 0, 64));
	}
	lengths(page - 300);
	if (checkpoint < 0 || rv_mirror_wait(region, checkpoint, -1) < 0)
		failures++;
	rv_mirror_wait_idle(region);
	look("stores while it is copied");
	rv_mirror_close(region);
	printf("%s\n", failures ? "failed" : "all mirrored");
	return failures != 0;
}
