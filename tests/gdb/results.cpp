// Results that C++ passes in registers, and in memory.
#include <cstdio>
#include <string>

template <class T> struct Pair {
    T first, second;
};

struct Mixed {
    int count;
    double share;
};

struct Large {
    long a, b, c;
};

struct Base {
    virtual ~Base() = default;
    int number = 3;
};

struct Copied {
    int number;
    explicit Copied(int number) : number(number) {}
    Copied(const Copied &other) : number(other.number + 1) {}
};

struct Around {
    Copied inner;
};

Pair<float> pair_of(float first) { return {first, first * 2}; }
Mixed mixed_of(int count) { return {count, count * 1.5}; }
Large large_of(long a) { return {a, a + 1, a + 2}; }
Base base_of(int number) {
    Base base;
    base.number = number;
    return base;
}
Around around_of(int number) { return Around{Copied(number)}; }
std::string text_of(int length) { return std::string(length, 'x'); }

int main() {
    Pair<float> pair = pair_of(1.5f);
    Mixed mixed = mixed_of(4);
    Large large = large_of(7);
    Base base = base_of(9);
    Around around = around_of(11);
    std::string text = text_of(3);
    printf("%g %g %ld %d %d %s\n", pair.second, mixed.share, large.c, base.number, around.inner.number, text.c_str());
}
