/* A node is freed and its memory used for something else, while the list still
 * holds it: the walk that follows dies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *next;
	int value;
	char name[32];
};

static struct node *list;

static void add(int value)
{
	struct node *n = malloc(sizeof *n);
	n->next = list;
	n->value = value;
	snprintf(n->name, sizeof n->name, "node %d", value);
	list = n;
}

static int total(void)
{
	int sum = 0;
	for (struct node *n = list; n; n = n->next)
		sum += n->value;
	return sum;
}

static void reuse(void)
{
	char *text = malloc(sizeof(struct node));
	for (unsigned i = 0; i < sizeof(struct node); i++)
		text[i] = 'A';
}

int main(void)
{
	for (int i = 0; i < 5; i++)
		add(i);
	printf("total %d\n", total());
	fflush(stdout);
	free(list->next);
	reuse();
	printf("total %d\n", total());
	return 0;
}
