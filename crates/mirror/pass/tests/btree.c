/* A plain B-tree in a region, with keys put in and taken out by threads that take turns at its lock; killed again and again.
 * Checkpoints are taken with the lock held, so that what is back is a tree as it is between two changes.
 *
 *   btree REGION KILLS [slow]: prints how many changes were back in the end, and "all whole". With `slow` it is killed when
 *   something was durable. */
#include <retrovane-mirror.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 16, THREADS = 3, KEYS = 20000 };

struct node {
	int count, is_leaf;
	long keys[ROOM];
	struct node *below[ROOM + 1];
};

struct tree {
	struct node *root;
	long keys, changes, sum;
};

static rv_mirror *region;
static struct tree *tree;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct node *new_node(int is_leaf)
{
	struct node *node = rv_mirror_calloc(region, 1, sizeof *node);
	if (!node)
		exit(4);
	node->is_leaf = is_leaf;
	return node;
}

static int place(const struct node *node, long key)
{
	int at = 0;
	while (at < node->count && node->keys[at] < key)
		at++;
	return at;
}

static void split(struct node *above, int at)
{
	struct node *full = above->below[at], *right = new_node(full->is_leaf);
	int half = ROOM / 2;
	right->count = ROOM - half - 1;
	memcpy(right->keys, full->keys + half + 1, right->count * sizeof(long));
	if (!full->is_leaf)
		memcpy(right->below, full->below + half + 1, (right->count + 1) * sizeof(struct node *));
	full->count = half;
	memmove(above->below + at + 2, above->below + at + 1, (above->count - at) * sizeof(struct node *));
	memmove(above->keys + at + 1, above->keys + at, (above->count - at) * sizeof(long));
	above->below[at + 1] = right;
	above->keys[at] = full->keys[half];
	above->count++;
}

static int insert(long key)
{
	if (tree->root->count == ROOM) {
		struct node *root = new_node(0);
		root->below[0] = tree->root;
		split(root, 0);
		tree->root = root;
	}
	struct node *node = tree->root;
	for (;;) {
		int at = place(node, key);
		if (at < node->count && node->keys[at] == key)
			return 0;
		if (node->is_leaf) {
			memmove(node->keys + at + 1, node->keys + at, (node->count - at) * sizeof(long));
			node->keys[at] = key;
			node->count++;
			return 1;
		}
		if (node->below[at]->count == ROOM) {
			split(node, at);
			continue;
		}
		node = node->below[at];
	}
}

/* Leaves may become empty, and stay; a key within is replaced by the one before it, if there is one. */
static int take(long key)
{
	struct node *node = tree->root;
	for (;;) {
		int at = place(node, key);
		int is_here = at < node->count && node->keys[at] == key;
		if (node->is_leaf) {
			if (is_here) {
				node->count--;
				memmove(node->keys + at, node->keys + at + 1, (node->count - at) * sizeof(long));
			}
			return is_here;
		}
		if (is_here) {
			struct node *before = node->below[at];
			while (!before->is_leaf)
				before = before->below[before->count];
			if (before->count == 0)
				return 0;
			node->keys[at] = before->keys[--before->count];
			return 1;
		}
		node = node->below[at];
	}
}

static const char *look(const struct node *node, long low, long high, int depth, int *leaves_at, long *keys, long *sum)
{
	if (node->count < 0 || node->count > ROOM)
		return "count";
	if (node->is_leaf) {
		if (*leaves_at >= 0 && *leaves_at != depth)
			return "depth";
		*leaves_at = depth;
	}
	for (int at = 0; at <= node->count; at++) {
		long below = at ? node->keys[at - 1] : low, above = at < node->count ? node->keys[at] : high;
		if (below >= above)
			return "order";
		if (at < node->count) {
			*keys += 1;
			*sum += node->keys[at];
		}
		const char *wrong = node->is_leaf ? NULL : look(node->below[at], below, above, depth + 1, leaves_at, keys, sum);
		if (wrong)
			return wrong;
	}
	return NULL;
}

static void open_tree(const char *path)
{
	struct rv_mirror_options options = {.size = 16 << 20};
	if (rv_mirror_open(path, &options, &region) < 0) {
		fprintf(stderr, "%s\n", rv_mirror_error());
		exit(2);
	}
	tree = rv_mirror_root(region, "tree");
	if (!tree) {
		tree = rv_mirror_calloc(region, 1, sizeof *tree);
		tree->root = new_node(1);
		rv_mirror_set_root(region, "tree", tree);
		rv_mirror_wait(region, rv_mirror_checkpoint(region, 0), -1);
	}
}

static int said;

static void *work(void *number)
{
	unsigned long seed = getpid() * 31 + (long)number;
	for (;;) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		long key = (seed >> 33) % KEYS;
		pthread_mutex_lock(&lock);
		if (insert(key)) {
			tree->keys++;
			tree->sum += key;
		} else if (take(key)) {
			tree->keys--;
			tree->sum -= key;
		}
		long changes = ++tree->changes;
		int64_t checkpoint = changes % 512 ? -1 : rv_mirror_checkpoint(region, 1);
		pthread_mutex_unlock(&lock);
		if (checkpoint > 0 && rv_mirror_wait(region, checkpoint, -1) == 0 &&
		    write(said, &changes, sizeof changes) != sizeof changes)
			_exit(3);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	long durable = 0;
	for (int kill_at = 0; kill_at < atoi(argv[2]); kill_at++) {
		int ends[2];
		if (pipe(ends))
			return 2;
		pid_t child = fork();
		if (child == 0) {
			said = ends[1];
			open_tree(argv[1]);
			pthread_t threads[THREADS];
			for (long number = 0; number < THREADS; number++)
				pthread_create(&threads[number], NULL, work, (void *)number);
			pthread_join(threads[0], NULL);
		}
		close(ends[1]);
		struct pollfd first = {ends[0], POLLIN, 0};
		if (argc > 3 && poll(&first, 1, -1) != 1)
			return 2;
		usleep(5000 + kill_at * 1613 % 30000);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		for (long changes; read(ends[0], &changes, sizeof changes) == sizeof changes;)
			durable = changes > durable ? changes : durable;
		close(ends[0]);
		open_tree(argv[1]);
		long keys = 0, sum = 0;
		int leaves_at = -1;
		const char *wrong = look(tree->root, -1, KEYS, 0, &leaves_at, &keys, &sum);
		if (!wrong && (keys != tree->keys || sum != tree->sum))
			wrong = "keys";
		if (!wrong && tree->changes < durable)
			wrong = "older than what was durable";
		if (wrong) {
			printf("kill %d: %s\n", kill_at, wrong);
			return 1;
		}
		rv_mirror_close(region);
	}
	printf("%ld changes, all whole\n", durable);
	return durable == 0;
}
