/* Naps for ever: it makes calls, and fills no log with them. */
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
	/* Whoever runs the tests may attach, even where Yama restricts it to descendants. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (;;)
		usleep(10000);
}
