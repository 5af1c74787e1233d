// Seccomp filters go back with the program: one added since the checkpoint is gone after a
// rollback, of all threads; and one that a replay adds again is there in the present.
// prints: none yet
// prints: added
// prints: 2 filters: EDOM ERANGE
#include "live.h"
#include "../guests/filters.h"

static atomic_int asked, answered;
static int other_error;

static int error_of(long number)
{
	return syscall(number, 0) < 0 ? errno : 0;
}

static void *other(void *argument)
{
	await(&asked);
	other_error = error_of(RARE);
	post(&answered, 1);
	return argument;
}

static void add(long number, int error)
{
	CHECK(FILTER(SECCOMP_FILTER_FLAG_TSYNC, DATA(nr), FOR(number, ERROR(error)),
	             RETURN(SECCOMP_RET_ALLOW)) == 0);
}

int main(void)
{
	need_session();
	gain_nothing();
	add(SYS_getsid, ERANGE);
	pthread_t thread = start(other, NULL);
	int id = checkpoint();
	CHECK(error_of(RARE) == 0 && error_of(SYS_getsid) == ERANGE);
	if (first_time(id)) {
		add(RARE, EXDEV);
		CHECK(error_of(RARE) == EXDEV);
		back(id);
	}
	say("none yet");
	add(RARE, EDOM);
	say("added");
	// The future of a replay is its present: everything is done again up to here.
	int present = rv_replay(id);
	CHECK(present == 0);
	post(&asked, 1);
	join(thread);
	CHECK(answered == 1 && other_error == EDOM);
	say("2 filters: %s %s", errno_name(error_of(RARE)), errno_name(error_of(SYS_getsid)));
	return 0;
}
