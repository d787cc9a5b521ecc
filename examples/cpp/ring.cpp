// A ring all-reduce of messages on the interface of ASTRA-sim, as examples/ring_by_messages.py does it in Python: each rank
// sends a block to the next one, waits for the block of the one before it, adds it to its own, and goes on.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>

#include "astra_backend.hpp"

namespace {

const double ADD = 1e-12;  // seconds that adding a byte takes: the memory of an NPU moves 1 TB/s

struct Rank {
    Network &network;
    AstraBackend backend;
    int number;
    uint64_t block;
    int step = 0;
    double end = 0.0;

    Rank(Network &network, int number, uint64_t size)
        : network(network), backend(network, number), number(number), block(size / (uint64_t)network.ranks()) {}

    void go() {
        const int ranks = network.ranks();
        if (step == 2 * (ranks - 1)) {
            end = network.now();
            return;
        }
        backend.sim_send(nullptr, block, 0, (number + 1) % ranks, step, nullptr, nullptr, nullptr);
        backend.sim_recv(nullptr, block, 0, (number + ranks - 1) % ranks, step, nullptr, received, this);
    }

    static void received(void *argument) {
        Rank &rank = *static_cast<Rank *>(argument);
        const double adding = rank.step < rank.network.ranks() - 1 ? ADD * (double)rank.block : 0.0;
        rank.backend.sim_schedule({AstraSim::SE, adding}, added, argument);
    }

    static void added(void *argument) {
        Rank &rank = *static_cast<Rank *>(argument);
        rank.step++;
        rank.go();
    }
};

}  // namespace

int main(int count, char **arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: ring FILE BYTES, a multiple of the ranks\n");
        return 2;
    }
    try {
        Network network(arguments[1]);
        std::deque<Rank> ranks;
        for (int number = 0; number < network.ranks(); number++)
            ranks.emplace_back(network, number, std::strtoull(arguments[2], nullptr, 10));
        for (Rank &rank : ranks) rank.go();
        network.run();
        for (const Rank &rank : ranks) std::printf("%.17g\n", rank.end);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "ring: %s\n", error.what());
        return 1;
    }
}
