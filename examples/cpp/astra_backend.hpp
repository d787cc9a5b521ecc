// A network with the interface that ASTRA-sim gives its network backends: one object for each rank, and times in
// nanoseconds. The engine of fredfw carries the messages, over the routes of a file of `fredfw export-program --routes`.
//
// ASTRA-sim itself is not needed. Beside it, include its AstraNetworkAPI.hh in place of the declarations in AstraSim here; its
// class is pure virtual, and one that derives from it passes its calls on to an AstraBackend.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include <fredfw.h>

namespace AstraSim {

enum time_type_e { SE = 0, MS, US, NS, FS };

struct timespec_t {
    time_type_e time_res;
    long double time_val;
};

struct sim_request;

}  // namespace AstraSim

// What all ranks share: the links, the clock, and the messages under way.
class Network {
  public:
    struct Callback {
        void (*function)(void *) = nullptr;
        void *argument = nullptr;
    };

    explicit Network(const std::string &path);
    ~Network();
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;

    int ranks() const { return (int)program_->npus; }
    double now() const { return *fredfw_now(network_); }  // seconds
    void send(int source, int destination, int tag, uint64_t bytes, Callback delivered);
    void receive(int source, int destination, int tag, Callback received);
    void schedule(double seconds, Callback callback);
    // Let everything happen.
    void run();

  private:
    // The n-th receive of a sender, a receiver and a tag gets the n-th message of these, whichever is there first.
    using Envelope = std::tuple<int, int, int>;
    struct Matching {
        std::deque<int64_t> messages;  // without a receive, by their tickets
        std::deque<Callback> receives;  // without a message
    };
    struct Message {
        Envelope envelope;
        double bytes;
        Callback delivered, received;
        bool is_there = false;
    };

    void deliver(int64_t ticket);

    const fredfw_program *program_ = nullptr;
    fredfw_network *network_ = nullptr;
    int64_t tickets_ = 0;
    std::unordered_map<int64_t, Message> messages_;  // by ticket, until they are delivered and received
    std::unordered_map<int64_t, Callback> timers_;
    std::map<Envelope, Matching> matchings_;
};

// One rank. Nothing is copied, so buffers, types and requests have no meaning, and counts are bytes.
class AstraBackend {
  public:
    AstraBackend(Network &network, int rank) : network_(network), rank_(rank) {}

    int sim_send(void *buffer, uint64_t count, int type, int dst, int tag, AstraSim::sim_request *request,
                 void (*msg_handler)(void *fun_arg), void *fun_arg);
    int sim_recv(void *buffer, uint64_t count, int type, int src, int tag, AstraSim::sim_request *request,
                 void (*msg_handler)(void *fun_arg), void *fun_arg);
    void sim_schedule(AstraSim::timespec_t delta, void (*fun_ptr)(void *fun_arg), void *fun_arg);
    AstraSim::timespec_t sim_get_time() const;
    int sim_comm_get_rank() const { return rank_; }

  private:
    Network &network_;
    int rank_;
};
