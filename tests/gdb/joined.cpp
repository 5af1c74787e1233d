// Objects of the C++ library that join values, may be one of several, or stand before a list.
#include <list>
#include <queue>
#include <stack>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

using Either = std::variant<int, std::string, double>;

struct None {};

struct Joined {
	std::tuple<int, double, std::string> whole;
	std::tuple<None, char, std::tuple<long, bool>> nested;
	std::pair<int, std::string> pair;
	Either number, text, part;
	std::vector<Either> all;
	std::queue<int, std::list<int>> line;
	std::stack<int, std::vector<int>> pile;
	std::priority_queue<int> first;
};

static volatile size_t total;

__attribute__((noinline)) static size_t look(const Joined &joined)
{
	total = joined.all.size();
	return total;
}

int main()
{
	Joined joined;
	joined.whole = {1, 2.5, "three, which is too long for the string itself"};
	joined.nested = {None(), 'c', {5, true}};
	joined.pair = {7, "seven"};
	joined.number = 4;
	joined.text = "text";
	joined.part = 0.5;
	joined.all = {1, 2.0};
	for (int i = 0; i < 3; i++) {
		joined.line.push(i);
		joined.pile.push(i);
		joined.first.push(i);
	}
	return look(joined) == 2 ? 0 : 1;
}
