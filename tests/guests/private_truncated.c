// A private mapping of a file that shrinks and grows again: the kernel drops also
// the pages that the program had written itself. In the page where the file ends now, zeros are
// behind the end.
// covers: ftruncate mmap memfd_create
#include "guest.h"
#include <sys/mman.h>

// A file that is all hole when it is mapped.
static int of_a_hole(void)
{
	int file = memfd_create("hole", 0);
	if (ftruncate(file, 8192) != 0)
		return 1;
	char *bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	memset(bytes, 7, 8192);
	if (ftruncate(file, 4096) != 0 || ftruncate(file, 8192) != 0)
		return 1;
	printf("%d %d\n", bytes[0], bytes[4096]);
	return 0;
}

int main(void)
{
	if (of_a_hole() != 0)
		return 1;
	int file = memfd_create("file", 0);
	if (ftruncate(file, 8192) != 0)
		return 1;
	char *bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	memset(bytes, 7, 8192);
	if (ftruncate(file, 4096) != 0 || ftruncate(file, 8192) != 0)
		return 1;
	printf("%d %d\n", bytes[0], bytes[4096]);
	char text[100];
	memset(text, 8, sizeof text);
	if (pwrite(file, text, sizeof text, 5000) != sizeof text)
		return 1;
	char *others = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, file, 0);
	printf("%d %d\n", others[5000], others[5050]);
	if (ftruncate(file, 5050) != 0)
		return 1;
	printf("%d %d\n", others[5049], others[5050]);
	return 0;
}
