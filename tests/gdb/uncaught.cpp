// Nobody catches what is thrown at the end; others were caught before.
#include <map>
#include <stdexcept>
#include <string>

static long pay(std::map<std::string, long> &accounts, const std::string &who, long cents) {
    if (cents > 100)
        throw std::invalid_argument("too much");
    return accounts.at(who) -= cents;
}

int main() {
    std::map<std::string, long> accounts{{"ann", 500}, {"bob", 300}};
    for (long cents = 90; cents < 110; cents++) {
        try {
            pay(accounts, "ann", cents);
        } catch (const std::invalid_argument &) {
        }
    }
    return (int)pay(accounts, "eve", 1);
}
