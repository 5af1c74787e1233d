// Exceptions of two kinds, thrown and caught in rounds.
#include <stdexcept>
#include <string>

static int caught;

static void fail(int round)
{
    if (round % 2)
        throw std::runtime_error("odd " + std::to_string(round));
    throw round;
}

int main()
{
    for (int round = 0; round < 4; round++) {
        try {
            fail(round);
        } catch (const std::runtime_error &) {
            caught += 10;
        } catch (int) {
            caught += 1;
        }
    }
    return caught - 22;
}
