// What does not go back with the program lies in a file. The guest defines `struct outside` before it
// includes this, with the `seed` of what is drawn, and opens the file.
#ifndef OUTSIDE_H
#define OUTSIDE_H

static int file;

static struct outside load(void)
{
	struct outside outside;
	CHECK(pread(file, &outside, sizeof outside, 0) == sizeof outside);
	return outside;
}

static void store(const struct outside *outside)
{
	CHECK(pwrite(file, outside, sizeof *outside, 0) == sizeof *outside);
}

static unsigned draw(struct outside *outside, unsigned below)
{
	outside->seed = outside->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(outside->seed >> 33) % below;
}

#endif
