#include <map>
#include <memory>
#include <string>
#include <vector>

struct Box {
    std::string label;
    std::vector<int> weights;
};

static std::map<std::string, Box> shelf;
static std::unique_ptr<int> total;

static void put(const std::string &name, int weight)
{
    Box &box = shelf[name];
    box.label = "box of " + name;
    box.weights.push_back(weight);
    *total += weight;
}

int main()
{
    total = std::make_unique<int>(0);
    put("tea", 2);
    put("salt", 5);
    put("tea", 3);
    return *total - 10;
}
