// Does what lines on standard input say, each at its time, through the interface of ASTRA-sim, and says what ended when:
// "send TIME SOURCE DESTINATION TAG BYTES" or "receive TIME SOURCE DESTINATION TAG".
#include <cstdio>
#include <deque>
#include <iostream>
#include <string>

#include "astra_backend.hpp"

struct Call {
    Network *network;
    int number;
    std::string what;
    int source, destination, tag;
    uint64_t bytes;
};

void ended(void *argument) {
    const Call &call = *static_cast<Call *>(argument);
    std::printf("%.17g %s %d\n", call.network->now(), call.what.c_str(), call.number);
}

void begin(void *argument) {
    const Call &call = *static_cast<Call *>(argument);
    if (call.what == "send")
        AstraBackend(*call.network, call.source)
            .sim_send(nullptr, call.bytes, 0, call.destination, call.tag, nullptr, ended, argument);
    else
        AstraBackend(*call.network, call.destination)
            .sim_recv(nullptr, 0, 0, call.source, call.tag, nullptr, ended, argument);
}

int main(int, char **arguments) {
    Network network(arguments[1]);
    std::deque<Call> calls;
    double time;
    for (Call call{&network, 0, "", 0, 0, 0, 0}; std::cin >> call.what >> time >> call.source >> call.destination >> call.tag;
         call.number++) {
        if (call.what == "send") std::cin >> call.bytes;
        calls.push_back(call);
        AstraBackend(network, call.source).sim_schedule({AstraSim::SE, time}, begin, &calls.back());
    }
    network.run();
    const AstraSim::timespec_t now = AstraBackend(network, 0).sim_get_time();
    if (now.time_res != AstraSim::NS || (double)(now.time_val / 1e9L) != network.now()) return 1;
}
