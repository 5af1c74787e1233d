// A private mapping of a file that shrinks and grows again: the kernel drops also
// the pages that the program had written itself.
// covers: ftruncate mmap memfd_create
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
	int file = memfd_create("file", 0);
	if (ftruncate(file, 8192) != 0)
		return 1;
	char *bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	memset(bytes, 7, 8192);
	if (ftruncate(file, 4096) != 0 || ftruncate(file, 8192) != 0)
		return 1;
	printf("%d %d\n", bytes[0], bytes[4096]);
	return 0;
}
