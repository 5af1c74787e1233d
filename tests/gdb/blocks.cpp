// Collections in blocks, chains and bits, and values that stand for others.
#include <complex>
#include <deque>
#include <forward_list>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

struct Point {
	int x, y;
};

struct Square {
	int operator()(int number) const { return number * number; }
};

struct Row {
	std::deque<int> few;
	std::deque<Point> many;
	std::deque<std::string> names;
	std::deque<double> none;
	std::forward_list<long> chain;
	std::forward_list<int> empty;
};

struct Rest {
	std::vector<bool> bits, no_bits, more_bits;
	std::complex<double> number;
	std::complex<float> small;
	double _Complex plain;
	std::function<int(int)> twice, square, adds, nothing;
	std::pair<int, std::string> pair;
};

static volatile size_t total;

__attribute__((noinline)) static size_t count(const Row &row, const Rest &rest)
{
	total = row.few.size();
	return total + rest.bits.size();
}

__attribute__((noinline)) static std::deque<int> queued(int count)
{
	std::deque<int> made;
	for (int number = 0; number < count; number++)
		made.push_back(number);
	return made;
}

static int twice_of(int number)
{
	return 2 * number;
}

int main()
{
	Row row;
	for (int number = 0; number < 4; number++)
		row.few.push_back(number);
	row.few.pop_front();
	row.few.push_front(-5);
	for (int number = 0; number < 200; number++)
		row.many.push_back({number, number * number});
	for (int number = 0; number < 70; number++)
		row.many.pop_front();
	row.names = {"one", "a name that is too long for the string itself"};
	row.chain = {3, 4, 5};
	Rest rest;
	rest.bits = {true, false, true};
	for (int number = 0; number < 70; number++)
		rest.more_bits.push_back(number % 64 == 3);
	rest.number = {1.5, -2};
	rest.small = {0, 1};
	rest.plain = 2.5 + 1.0j;
	rest.twice = twice_of;
	rest.square = Square();
	int more = 3;
	rest.adds = [more](int number) { return number + more; };
	rest.pair = {1, "first"};
	size_t counted = count(row, rest) + rest.twice(1) + rest.square(1) + rest.adds(1) + queued(3).size();
	return counted == 17 ? 0 : 1;
}
