/* Work of a library whose memory is all in a region: SQLITE, LUA or ZSTD says whose. Prints the
 * seconds of processor time that it took. It is built with the compiler's pass and without; both
 * have the same allocator, so that the barrier is all that differs. */
#include <retrovane-mirror.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static rv_mirror *region;

/* What is there before the work begins. */
static void prepare(void);

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

#if defined(SQLITE)
#include "sqlite3.h"

static void *allocate(int bytes)
{
	return rv_mirror_alloc(region, bytes);
}
static void *reallocate(void *block, int bytes)
{
	return rv_mirror_realloc(region, block, bytes);
}
static void release(void *block)
{
	rv_mirror_free(region, block);
}
static int size_of(void *block)
{
	return rv_mirror_usable_size(region, block);
}
static int round_up(int bytes)
{
	return (bytes + 15) & ~15;
}
static int begin(void *data)
{
	return SQLITE_OK;
}
static void end(void *data)
{
}

static void prepare(void)
{
}

static void work(void)
{
	static sqlite3_mem_methods methods = {allocate, release, reallocate, size_of, round_up, begin, end, NULL};
	sqlite3 *db;
	char *why = NULL;
	if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) || sqlite3_open(":memory:", &db))
		fail("sqlite", "it cannot be opened");
	const char *text =
	    "create table t(a integer primary key, b integer, c text);"
	    "create index i on t(b);"
	    "begin;"
	    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 150000)"
	    " insert into t select x, x * 7919 % 150001, 'row ' || x || ' of the table' from n;"
	    "commit;"
	    "update t set c = c || ' changed', b = b + 1 where a % 3 = 0;"
	    "create table s as select b % 1000 as k, count(*) as n, max(c) as m from t group by k;"
	    "delete from t where a % 5 = 0;"
	    "create table o as select * from t order by c;";
	if (sqlite3_exec(db, text, NULL, NULL, &why))
		fail("sqlite", why);
	sqlite3_close(db);
}

#elif defined(LUA)
#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

static void *allocate(void *data, void *block, size_t old, size_t bytes)
{
	if (bytes)
		return rv_mirror_realloc(region, block, bytes);
	rv_mirror_free(region, block);
	return NULL;
}

static void prepare(void)
{
}

static void work(void)
{
	lua_State *state = lua_newstate(allocate, NULL);
	if (!state)
		fail("lua", "it cannot begin");
	luaL_openlibs(state);
	const char *text =
	    "local function tree(n) if n == 0 then return {} end return {tree(n - 1), tree(n - 1)} end\n"
	    "local function count(t) if t[1] then return 1 + count(t[1]) + count(t[2]) end return 1 end\n"
	    "local total = 0\n"
	    "for i = 1, 6 do total = total + count(tree(15)) end\n"
	    "local words, seed = {}, 1\n"
	    "for i = 1, 200000 do seed = seed * 1103515245 % 2147483648; words[i] = seed end\n"
	    "table.sort(words)\n"
	    "local counts = {}\n"
	    "for i, w in ipairs(words) do local k = 'k' .. w % 5000; counts[k] = (counts[k] or 0) + 1 end\n"
	    "local parts = {}\n"
	    "for k, n in pairs(counts) do parts[#parts + 1] = k .. '=' .. n end\n"
	    "table.sort(parts)\n"
	    "assert(#table.concat(parts, ',') > 0 and total > 0)\n";
	if (luaL_dostring(state, text))
		fail("lua", lua_tostring(state, -1));
	lua_close(state);
}

#elif defined(ZSTD)
#define ZSTD_STATIC_LINKING_ONLY
#include "zstd.h"

enum { BYTES = 24 << 20 };

static void *allocate(void *data, size_t bytes)
{
	return rv_mirror_alloc(region, bytes);
}
static void release(void *data, void *block)
{
	rv_mirror_free(region, block);
}

static char *text;

static void prepare(void)
{
	text = rv_mirror_alloc(region, BYTES);
	if (!text)
		fail("zstd", rv_mirror_error());
	size_t used = 0;
	static const char *const words[] = {"a mirror ", "of ", "memory ", "is kept ", "by ", "every ", "store, ", "twice\n"};
	for (unsigned seed = 1; used < BYTES - 16;) {
		seed = seed * 1103515245 + 12345;
		const char *word = words[seed >> 29];
		used += strlen(strcpy(text + used, word));
		text[used++] = 'a' + (seed >> 16) % 26;
	}
	memset(text + used, '.', BYTES - used);
}

static void work(void)
{
	ZSTD_customMem memory = {allocate, release, NULL};
	char *back = rv_mirror_alloc(region, BYTES);
	size_t room = ZSTD_compressBound(BYTES);
	char *packed = rv_mirror_alloc(region, room);
	if (!back || !packed)
		fail("zstd", rv_mirror_error());
	ZSTD_CCtx *compressor = ZSTD_createCCtx_advanced(memory);
	ZSTD_DCtx *decompressor = ZSTD_createDCtx_advanced(memory);
	size_t bytes = ZSTD_compressCCtx(compressor, packed, room, text, BYTES, 3);
	if (ZSTD_isError(bytes) || ZSTD_decompressDCtx(decompressor, back, BYTES, packed, bytes) != BYTES ||
	    memcmp(text, back, BYTES))
		fail("zstd", "other bytes came back");
}
#endif

int main(int argc, char **argv)
{
	struct rv_mirror_options options = {.size = 192 << 20};
	/* All of it is present, as only what is built with the pass uses the mirror. */
	if (argc < 2 || rv_mirror_open(argv[1], &options, &region) < 0 || rv_mirror_make_present(region) < 0)
		fail("the region", rv_mirror_error());
	prepare();
	/* Checkpoints all the time, if that is wanted. */
	if (argc > 2)
		rv_mirror_set_period(region, atoi(argv[2]));
	struct timespec began, ended;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
	work();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
	/* Built with the pass and run with the check, all of it was saved before it was stored to. */
	uintptr_t at;
	size_t pages = rv_mirror_differences(region, &at, 1);
	printf("%.6f %zu\n", (ended.tv_sec - began.tv_sec) + (ended.tv_nsec - began.tv_nsec) / 1e9, pages);
	rv_mirror_close(region);
	return 0;
}
