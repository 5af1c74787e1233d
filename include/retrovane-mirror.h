/* Memory that is checkpointed to disk in the background: the mirror.
 *
 * A region has a second copy, which a checkpoint makes what the region was at one moment, and writes to disk; no store waits for it.
 * Programs are built with -fpass-plugin=libretrovane-mirror-pass.so (clang), so that their stores save
 * what they overwrite while that is under way.
 * retrovane_mirror(7) and docs/MIRROR.md say how; rv_mirror_open(3) describes the functions.
 *
 * Functions that return int or int64_t return a number below 0 where they fail;
 * rv_mirror_error() then says why and what to do.
 */
#ifndef RETROVANE_MIRROR_H
#define RETROVANE_MIRROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors, as what functions return. */
#define RV_MIRROR_ALREADY_OPEN (-1)
#define RV_MIRROR_BAD_SIZE (-2)
#define RV_MIRROR_OTHER_SIZE (-3)
#define RV_MIRROR_OTHER_VERSION (-4)
#define RV_MIRROR_WRONG_FILE (-5)
#define RV_MIRROR_NO_WHOLE_CHECKPOINT (-6)
#define RV_MIRROR_IN_USE (-7)
#define RV_MIRROR_BASE_IN_USE (-8)
#define RV_MIRROR_NO_RSEQ_AREA (-9) /* of earlier versions */
#define RV_MIRROR_OUT_OF_MEMORY (-10)
#define RV_MIRROR_NO_PLACE_FOR_ROOT (-11)
#define RV_MIRROR_BUSY (-12)
#define RV_MIRROR_DISK (-13)
#define RV_MIRROR_TIMED_OUT (-14)
#define RV_MIRROR_CLOSED (-15)
#define RV_MIRROR_OS (-16)
#define RV_MIRROR_CHILD (-17)
#define RV_MIRROR_DAMAGED (-18)
#define RV_MIRROR_NO_CHECK (-19)

typedef struct rv_mirror rv_mirror;

struct rv_mirror_options {
	size_t size;        /* bytes, from 64 KiB; 0: as the files say */
	uint64_t rate;      /* bytes that are written in a second at most; 0: no limit */
	uint64_t period_ms; /* a checkpoint each time this is over; 0: only when asked for */
};

/* Opens the region of PATH.0 and PATH.1: as its last checkpoint, or new. */
int rv_mirror_open(const char *path, const struct rv_mirror_options *options, rv_mirror **region);
/* The same, which first compares all pages of the checkpoint with their checksums, as fast as the disk is,
 * and begins with the one before where a page is damaged. */
int rv_mirror_open_verified(const char *path, const struct rv_mirror_options *options, rv_mirror **region);
/* Waits until all pages of the recovered checkpoint were compared, as rv_mirror_open leaves that to a thread.
 * No checkpoint becomes durable before; RV_MIRROR_DAMAGED: none will, and what was read may be wrong. */
int rv_mirror_wait_verified(rv_mirror *region, int timeout_ms);
/* Ends when the checkpoint under way is over; takes none. */
void rv_mirror_close(rv_mirror *region);
/* What this thread's last call that failed would say. */
const char *rv_mirror_error(void);
/* The region that this process has opened, for code in the region's data, which has no handle; NULL without one. */
rv_mirror *rv_mirror_opened(void);
/* Generation of the checkpoint that it began with; 0: it is new. */
uint64_t rv_mirror_recovered(const rv_mirror *region);
/* Makes all of the region and of its mirror present, where no store is to wait for the kernel's new pages. Else
 * they come when they are first used, or some time before. */
int rv_mirror_make_present(rv_mirror *region);

void *rv_mirror_alloc(rv_mirror *region, size_t size);
void *rv_mirror_calloc(rv_mirror *region, size_t count, size_t size);
void *rv_mirror_realloc(rv_mirror *region, void *block, size_t size);
void *rv_mirror_aligned_alloc(rv_mirror *region, size_t alignment, size_t size);
void rv_mirror_free(rv_mirror *region, void *block);
size_t rv_mirror_usable_size(const rv_mirror *region, const void *block);
size_t rv_mirror_used(const rv_mirror *region);
/* 1 for addresses where regions are. */
int rv_mirror_contains(const void *address);

/* Names an address, so that the program finds it in a recovered region. */
int rv_mirror_set_root(rv_mirror *region, const char *name, void *value);
/* NULL where the name is not known. */
void *rv_mirror_root(const rv_mirror *region, const char *name);

/* Begins a checkpoint of now and returns its number. Where one is under way, it is of the
 * moment when that is over; with now != 0, RV_MIRROR_BUSY instead. */
int64_t rv_mirror_checkpoint(rv_mirror *region, int now);
/* 1: a checkpoint would be of now. */
int rv_mirror_is_idle(const rv_mirror *region);
/* Waits until it is durable; below 0 for timeout_ms: as long as it takes. */
int rv_mirror_wait(rv_mirror *region, int64_t checkpoint, int timeout_ms);
/* 1: durable, 0: not known yet. */
int rv_mirror_poll(const rv_mirror *region, int64_t checkpoint);
/* Waits until none is under way: the next one would be of the moment when it is asked for. */
void rv_mirror_wait_idle(rv_mirror *region);
void rv_mirror_set_period(rv_mirror *region, uint64_t milliseconds);
void rv_mirror_set_rate(rv_mirror *region, uint64_t bytes);

/* Call this before code that was not compiled with the pass stores to the region: what is overwritten is saved, if a
 * checkpoint is being captured. Other addresses than the region's are ignored. */
void rv_mirror_will_write(void *address, size_t count);
/* The same behind such stores, for the check only. A checkpoint whose moment was before may have them, and not what
 * the thread stored before them. */
void rv_mirror_wrote(const void *address, size_t count);

/* Looks for words that changed without being saved: stores without a barrier. They are known with RETROVANE_MIRROR_CHECK=1
 * in the environment of who opens the region; without, it says so on stderr and returns 0.
 * Returns in how many pages, and the first such address of up to `room` of them.
 * With such addresses in RETROVANE_MIRROR_WATCH it says on stderr which code stored there last. */
size_t rv_mirror_differences(rv_mirror *region, uintptr_t addresses[], size_t room);

#ifdef __cplusplus
}

#include <new>

namespace retrovane {

/* For the containers of the standard library:
 *   std::vector<int, retrovane::mirror_allocator<int>> numbers;
 * The containers themselves belong into the region too: rv_mirror_alloc and placement new. It allocates in the region that
 * the process has opened, and has no state: that of a recovered container would be of the process before. */
template <typename T> class mirror_allocator {
public:
	typedef T value_type;
	mirror_allocator() {}
	mirror_allocator(rv_mirror *) {}
	template <typename U> mirror_allocator(const mirror_allocator<U> &) {}

	T *allocate(size_t count)
	{
		if (count > SIZE_MAX / sizeof(T))
			throw std::bad_alloc();
		const size_t alignment = alignof(T) > 16 ? alignof(T) : 16;
		rv_mirror *region = rv_mirror_opened();
		void *block = region ? rv_mirror_aligned_alloc(region, alignment, count * sizeof(T)) : NULL;
		if (!block)
			throw std::bad_alloc();
		return static_cast<T *>(block);
	}
	void deallocate(T *block, size_t) { rv_mirror_free(rv_mirror_opened(), block); }
	template <typename U> bool operator==(const mirror_allocator<U> &) const { return true; }
	template <typename U> bool operator!=(const mirror_allocator<U> &) const { return false; }
};

} // namespace retrovane
#endif

#endif
