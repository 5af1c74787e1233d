// Collections that have their elements in nodes, small and large, and in one another.
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

struct Point {
	int x, y;
};

struct Atlas {
	std::map<int, std::string> names;
	std::multimap<std::string, Point> places;
	std::set<long> numbers;
	std::unordered_map<std::string, double> shares;
	std::unordered_set<char> letters;
	std::list<Point> route;
	std::set<int> none;
	std::map<int, std::vector<int>> rows;
};

static volatile size_t total;

__attribute__((noinline)) static std::map<int, int> squares(int count)
{
	std::map<int, int> made;
	for (int number = 0; number < count; number++)
		made[number * 7 % count] = number;
	total = made.size();
	return made;
}

__attribute__((noinline)) static size_t count(const Atlas &atlas)
{
	total = atlas.names.size();
	return total + atlas.numbers.size();
}

int main()
{
	Atlas atlas;
	atlas.names = {{3, "three"}, {1, "one"}, {2, "a name that is too long for the string itself"}};
	atlas.places = {{"home", {1, 2}}, {"work", {3, 4}}, {"home", {5, 6}}};
	for (long number = 0; number < 100; number++)
		atlas.numbers.insert(number * 37 % 101);
	atlas.shares["half"] = 0.5;
	atlas.letters = {'x'};
	atlas.route = {{7, 8}, {9, 10}};
	atlas.rows[4] = {1, 2};
	size_t counted = count(atlas) + squares(3).size() + squares(40).size();
	return counted == 146 ? 0 : 1;
}
