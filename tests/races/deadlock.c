// Two locks taken in opposite orders. The watchdog ends the program when both threads wait.
#include "race.h"

static pthread_mutex_t from = PTHREAD_MUTEX_INITIALIZER, to = PTHREAD_MUTEX_INITIALIZER;
static long moved;

static void on_alarm(int number)
{
	static const char text[] = "caught: both threads wait for each other\n";
	(void)number;
	if (write(2, text, sizeof text - 1) < 0)
		_exit(2);
	_exit(1);
}

static void prepare(void)
{
}

static void move(void)
{
	pthread_mutex_lock(&from);
	work(WINDOW_STEPS);
	pthread_mutex_lock(&to);
	moved++;
	pthread_mutex_unlock(&to);
	pthread_mutex_unlock(&from);
}

static void move_back(void)
{
	work(PREPARATION_STEPS);
	pthread_mutex_lock(&to);
	work(WINDOW_STEPS);
	pthread_mutex_lock(&from);
	moved--;
	pthread_mutex_unlock(&from);
	pthread_mutex_unlock(&to);
}

static void check(void)
{
	CHECK(moved == 0);
}

int main(void)
{
	handle(SIGALRM, on_alarm, 0);
	alarm(2);
	race(prepare, move, move_back, check);
	return 0;
}
