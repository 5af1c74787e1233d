/*
 * retrovane.h - checkpoint, rollback and replay of the calling program.
 *
 * A program that runs under `retrovane live` goes back to a checkpoint that it took
 * itself: the whole process, with all its threads, its memory and its registers.
 * See rv_checkpoint(3).
 *
 * Every function is one system call with a number that no kernel has. Outside of a
 * live session the kernel answers that it does not know it, and the functions fail
 * with ENOSYS; no state is kept and nothing is set up.
 *
 * Link with `pkg-config --cflags --libs retrovane`, or define RETROVANE_INLINE before
 * this header is included and link with nothing.
 *
 * C99 or C++98 and later. The functions may be called from any thread and from
 * signal handlers.
 */
#ifndef RETROVANE_H
#define RETROVANE_H

/* libretrovane itself is this header with RETROVANE_IMPLEMENTATION. */
#if defined(RETROVANE_INLINE) || defined(RETROVANE_IMPLEMENTATION)
#include <errno.h>
#endif

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The ABI, for languages that cannot call C: the system call RV_CALL_BASE + operation
 * with the checkpoint's id as its first argument, and text and size of rv_check and rv_lost as
 * its second and third. It answers 0 or more, or -errno.
 */
#define RV_CALL_BASE 0x525600
#define RV_OP_CHECKPOINT 0
#define RV_OP_DISCARD 1
#define RV_OP_ROLLBACK 2
#define RV_OP_REPLAY 3
#define RV_OP_ROLLBACKS 4
#define RV_OP_REPLAYING 5
#define RV_OP_CHECK 6
#define RV_OP_LOST 7

#define RV_PRIVATE static __inline__ __attribute__((__unused__))
#if defined(RETROVANE_INLINE)
#define RV_FUNCTION RV_PRIVATE
#else
#define RV_FUNCTION
#endif

/*
 * Takes a checkpoint of the process.
 *
 * Returns its id, 0 or more: once when it was taken, and again after each rollback to
 * it. rv_rollbacks(id) tells these returns apart.
 *
 * Fails with ENOSYS (not in a live session), ENOMEM, EAGAIN (limit on processes),
 * EBUSY (another process shares the memory and cannot take part; a child of vfork), ETIMEDOUT (a thread
 * could not be stopped). A checkpoint that cannot be taken leaves the program as it was.
 */
RV_FUNCTION int rv_checkpoint(void);

/*
 * Forgets a checkpoint and frees its memory. Returns 0.
 *
 * Fails with ENOSYS, or ENOENT (no such checkpoint, or already discarded).
 */
RV_FUNCTION int rv_discard(int id);

/*
 * Goes back to a checkpoint and on from there: a new branch, live.
 *
 * Does not return if it succeeds: rv_checkpoint() does, again, in the thread that
 * called it. Input consumed since is read again; what was sent stays sent.
 *
 * Returns -1 if it fails, and the program is where it was: ENOSYS, ENOENT, ENOMEM,
 * EAGAIN, EBUSY or ETIMEDOUT.
 */
RV_FUNCTION int rv_rollback(int id);

/*
 * Goes back to a checkpoint, does the same again up to this very call, and returns 0
 * in the present. On the way nothing goes out: results of system calls come from the
 * log.
 *
 * Returns -1 if it fails, and the program is where it was: ENOSYS, ENOENT, ENOMEM,
 * EAGAIN, EBUSY or ETIMEDOUT.
 */
RV_FUNCTION int rv_replay(int id);

/*
 * How often the program was rolled back to a checkpoint: 0 until the first rollback.
 * A replay counts as none, and gives the number that was given before.
 *
 * Fails with ENOSYS or ENOENT.
 */
RV_FUNCTION int rv_rollbacks(int id);

/*
 * 1 while a replay is going on, 0 in the present. The answer is not logged: this is
 * the one call by which a program can know that it is replayed. What it then does may
 * not make other system calls than before.
 *
 * Where nothing is recorded it fails with ENOSYS, so compare: if (rv_replaying() > 0).
 */
RV_FUNCTION int rv_replaying(void);

/*
 * What a rollback to a checkpoint would not restore if it were done now: a line of text for
 * each thing, such as bytes that were sent, or a socket that was closed. Nothing is changed.
 *
 * Returns the length of all of it, 0 if there is nothing. As much as fits is written to text,
 * which has room for size bytes, and ends with a zero; size may be 0.
 *
 * Fails with EFAULT, and as rv_rollback(id) would.
 */
RV_FUNCTION int rv_check(int id, char *text, size_t size);

/*
 * The same of what the last rollback to a checkpoint did not restore: to be asked when
 * rv_checkpoint() has returned again. There is nothing before the first rollback.
 *
 * Fails with ENOSYS, ENOENT or EFAULT.
 */
RV_FUNCTION int rv_lost(int id, char *text, size_t size);

#if defined(RETROVANE_INLINE) || defined(RETROVANE_IMPLEMENTATION)

/* The bare call: 0 or more, or -errno. */
RV_PRIVATE long rv_call_text(long operation, long id, char *text, size_t size)
{
#if defined(__x86_64__) && !defined(__ILP32__)
	long result;
	/* The runtime restores memory in a rollback: the compiler may not know it over
	   this call. */
	__asm__ __volatile__("syscall"
			     : "=a"(result)
			     : "0"(RV_CALL_BASE + operation), "D"(id), "S"(text), "d"(size)
			     : "rcx", "r11", "memory");
	return result;
#else
	/* Retrovane runs programs of x86-64. */
	(void)operation;
	(void)id;
	(void)text;
	(void)size;
	return -ENOSYS;
#endif
}

RV_PRIVATE long rv_call(long operation, long id) { return rv_call_text(operation, id, NULL, 0); }

RV_PRIVATE int rv_finish(long result)
{
	/* A sandbox may refuse what it does not know with an errno of its own. In a live
	   session RV_OP_REPLAYING never fails. */
	if (result < 0 && result != -ENOSYS && rv_call(RV_OP_REPLAYING, 0) < 0)
		result = -ENOSYS;
	if (result >= 0)
		return (int)result;
	errno = (int)-result;
	return -1;
}

RV_FUNCTION int rv_checkpoint(void) { return rv_finish(rv_call(RV_OP_CHECKPOINT, 0)); }
RV_FUNCTION int rv_discard(int id) { return rv_finish(rv_call(RV_OP_DISCARD, id)); }
RV_FUNCTION int rv_rollback(int id) { return rv_finish(rv_call(RV_OP_ROLLBACK, id)); }
RV_FUNCTION int rv_replay(int id) { return rv_finish(rv_call(RV_OP_REPLAY, id)); }
RV_FUNCTION int rv_rollbacks(int id) { return rv_finish(rv_call(RV_OP_ROLLBACKS, id)); }
RV_FUNCTION int rv_replaying(void) { return rv_finish(rv_call(RV_OP_REPLAYING, 0)); }
RV_FUNCTION int rv_check(int id, char *text, size_t size)
{
	return rv_finish(rv_call_text(RV_OP_CHECK, id, text, size));
}
RV_FUNCTION int rv_lost(int id, char *text, size_t size)
{
	return rv_finish(rv_call_text(RV_OP_LOST, id, text, size));
}

#endif

#undef RV_FUNCTION
#undef RV_PRIVATE

#ifdef __cplusplus
}
#endif

#endif
