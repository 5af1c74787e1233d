// A trivial program: what is measured is its start.
#include "micro.h"

int main(int argc, char **argv)
{
	micro_count(argc, argv);
	micro_report(micro_now());
	return 0;
}
