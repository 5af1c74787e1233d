/* A library of three books, and what one may ask it. */
#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>

static sqlite3 *library;

static int show(void *unused, int columns, char **values, char **names) {
	for (int i = 0; i < columns; i++)
		printf("%s%s", i ? " | " : "", values[i] ? values[i] : "");
	printf("\n");
	return 0;
}

static void ask(const char *sql) {
	char *error = NULL;
	if (sqlite3_exec(library, sql, show, NULL, &error) != SQLITE_OK) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
}

int main(void) {
	if (sqlite3_open(":memory:", &library) != SQLITE_OK)
		return 1;
	ask("create table book (title, author, year)");
	ask("insert into book values ('Emma', 'Jane Austen', 1815)");
	ask("insert into book values ('Walden', 'Henry David Thoreau', 1854)");
	ask("insert into book values ("
	    "'Travels into Several Remote Nations of the World, in Parts', "
	    "'Lemuel Gulliver, first a surgeon, and then a captain of several ships, of London', 1726)");
	ask("select count(*) from book");
	ask("select title || ', ' || author from book");
	ask("select author, count(*) from book group by author");
	sqlite3_close(library);
	return 0;
}
