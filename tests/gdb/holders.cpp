// Objects of the C++ library that hold, own or may have others.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct Item {
	int id;
	std::string name;
	std::vector<std::string> tags;
	const char *note;
};

struct Shelf {
	std::vector<Item> items;
	std::vector<int> sizes;
	std::unique_ptr<Item> best;
	std::shared_ptr<int> count;
	std::optional<double> price;
	std::optional<int> none;
	std::array<int, 3> sides;
	std::atomic<long> uses;
	std::map<int, int> places;
	std::vector<std::vector<int>> rows;
	std::string label;
};

static volatile size_t total;

__attribute__((noinline)) static size_t weigh(const Shelf &shelf, std::string_view part)
{
	size_t sum = shelf.items.size() + part.size();
	total = sum;
	return sum;
}

namespace made {
__attribute__((noinline)) static std::string label(int number)
{
	return "a label that is too long for itself: " + std::to_string(number);
}

__attribute__((noinline)) static std::vector<std::string> labels(int number)
{
	return {"short", label(number)};
}

template <class Number> __attribute__((noinline)) static std::string_view part(Number from)
{
	return std::string_view("some text").substr(from);
}
}

int main()
{
	total = made::labels(8).size() + made::part<int>(5).size() + made::part<long>(0).size();
	Shelf shelf;
	shelf.items = {{1, "one", {"x", "yy"}, "first"}, {2, "two", {}, nullptr}};
	shelf.sizes = {4, 5, 6};
	shelf.best = std::make_unique<Item>(Item{7, "seven", {}, "best"});
	shelf.count = std::make_shared<int>(5);
	shelf.price = 2.5;
	shelf.sides = {7, 8, 9};
	shelf.uses = 11;
	shelf.places = {{1, 2}, {3, 4}};
	shelf.rows = {{1, 2}, {}, {3}};
	shelf.label = "a label that is too long for the string itself";
	return weigh(shelf, "view") == 6 ? 0 : 1;
}
