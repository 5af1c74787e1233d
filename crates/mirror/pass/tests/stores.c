/* Every kind of store into the region. After each kind the mirror must be equal; then the
 * state of a checkpoint is compared with what it was. Prints one line for each kind. */
#define _GNU_SOURCE
#include <retrovane-mirror.h>

#include <emmintrin.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rv_mirror *region;
static int failures;

static void look(const char *kind)
{
	uintptr_t at[4];
	size_t count = rv_mirror_differences(region, at, 4);
	printf("%-28s %s\n", kind, count ? "DIFFERS" : "ok");
	if (count) {
		printf("    %zu pages, first at %#lx\n", count, (unsigned long)at[0]);
		failures++;
	}
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
	strcpy(p + 20, "a string");
	strncpy(p + 40, "another", 20);
	snprintf(p + 100, 30, "%d and %s", 42, "more than there is room for, surely");
	sprintf(p + 200, "%d", 77);
	p[n - 1] = 1;
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
} by_pointer = {read, memcpy};

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
	close(ends[0]);
	close(ends[1]);
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
	look("members");
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
	atomics(p + 327680);
	look("atomics");
	assembly((void *)(p + 393216));
	look("assembly");
	from_files(p + 458752);
	look("read");
	loops((void *)(p + 524288), 100, -7);
	qsort(p + 524288, 100, sizeof(int), by_number);
	look("qsort");
	/* Frozen, stores go to the region only; afterwards the mirror is equal again. */
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
	look("stores while frozen");
	rv_mirror_close(region);
	printf("%s\n", failures ? "failed" : "all mirrored");
	return failures != 0;
}
