// OpenMP: loops, reductions, tasks, critical sections, and threads that spin.
#include <omp.h>
#include <stdio.h>

static long fibonacci(int n)
{
	long a, b;
	if (n < 2)
		return n;
	if (n < 12)
		return fibonacci(n - 1) + fibonacci(n - 2);
#pragma omp task shared(a)
	a = fibonacci(n - 1);
#pragma omp task shared(b)
	b = fibonacci(n - 2);
#pragma omp taskwait
	return a + b;
}

int main(void)
{
	enum { N = 300 };
	static double a[N][N], b[N][N], c[N][N];
	double trace = 0;
	unsigned order = 2166136261u;
	long result;
#pragma omp parallel for
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			a[i][j] = i + j;
			b[i][j] = i == j ? 2 : 0;
		}
#pragma omp parallel for schedule(dynamic, 7)
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			for (int k = 0; k < N; k++)
				c[i][j] += a[i][k] * b[k][j];
#pragma omp parallel for reduction(+ : trace)
	for (int i = 0; i < N; i++)
		trace += c[i][i];
	for (int round = 0; round < 200; round++) {
#pragma omp parallel
		{
#pragma omp critical
			order = (order ^ omp_get_thread_num()) * 16777619u;
#pragma omp barrier
		}
	}
#pragma omp parallel
#pragma omp single
	result = fibonacci(24);
	printf("trace %.0f, fibonacci %ld, threads %d\n~ order %08x\n", trace, result, omp_get_max_threads(), order);
	return 0;
}
