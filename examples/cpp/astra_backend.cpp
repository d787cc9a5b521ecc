#include "astra_backend.hpp"

#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

using namespace AstraSim;

namespace {

// What the engine returned, unless it has refused.
int64_t checked(int64_t result) {
    if (result < 0) throw std::runtime_error(fredfw_error());
    return result;
}

}  // namespace

Network::Network(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    std::ostringstream text;
    text << file.rdbuf();
    const std::string bytes = text.str();
    program_ = fredfw_program_read((int64_t)bytes.size(), (const uint8_t *)bytes.data());
    if (program_ && program_->routes.count) network_ = fredfw_program_network(program_);
    if (network_) return;
    const std::string what = program_ ? "it has no routes; write it with --routes" : fredfw_error();
    fredfw_program_free(program_);
    throw std::runtime_error(path + ": " + what);
}

Network::~Network() {
    fredfw_network_free(network_);
    fredfw_program_free(program_);
}

void Network::send(int source, int destination, int tag, uint64_t bytes, Callback delivered) {
    const Envelope envelope(source, destination, tag);
    const int64_t ticket = ++tickets_;
    Message &message = messages_[ticket];
    message.envelope = envelope, message.bytes = (double)bytes, message.delivered = delivered;
    fredfw_cargo cargo = {};
    cargo.routes = program_->routes, cargo.flow = source * program_->npus + destination;
    cargo.volumes = &message.bytes, cargo.activities = cargo.repeat = 1, cargo.ticket = ticket;
    checked(fredfw_admit(network_, &cargo));
    Matching &matching = matchings_[envelope];
    if (matching.receives.empty()) {
        matching.messages.push_back(ticket);
    } else {
        message.received = matching.receives.front();
        matching.receives.pop_front();
    }
}

void Network::receive(int source, int destination, int tag, Callback received) {
    Matching &matching = matchings_[{source, destination, tag}];
    if (matching.messages.empty()) return matching.receives.push_back(received);
    const auto message = messages_.find(matching.messages.front());
    matching.messages.pop_front();
    message->second.received = received;
    if (!message->second.is_there) return;
    messages_.erase(message);
    schedule(0.0, received);  // at this moment, and not before this call has returned
}

void Network::schedule(double seconds, Callback callback) {
    timers_[checked(fredfw_timer(network_, seconds, 0))] = callback;
}

void Network::deliver(int64_t ticket) {
    const auto message = messages_.find(ticket);
    const Callback delivered = message->second.delivered, received = message->second.received;
    message->second.is_there = true;
    if (received.function) {  // the sender hears of it before the receiver does
        messages_.erase(message);
        schedule(0.0, received);
    }
    if (delivered.function) delivered.function(delivered.argument);
}

void Network::run() {
    fredfw_notice notice;
    checked(fredfw_begin(network_));
    while (const int64_t what = checked(fredfw_step(network_, INFINITY, 1 << 16, &notice))) {
        if (what == FREDFW_ENDED) deliver(notice.whose);
        if (what == FREDFW_TIMER) {
            const auto timer = timers_.find(notice.whose);
            const Callback callback = timer->second;
            timers_.erase(timer);
            callback.function(callback.argument);
        }
    }
}

int AstraBackend::sim_send(void *, uint64_t count, int, int dst, int tag, sim_request *, void (*msg_handler)(void *),
                           void *fun_arg) {
    network_.send(rank_, dst, tag, count, {msg_handler, fun_arg});
    return 0;
}

int AstraBackend::sim_recv(void *, uint64_t, int, int src, int tag, sim_request *, void (*msg_handler)(void *),
                           void *fun_arg) {
    network_.receive(src, rank_, tag, {msg_handler, fun_arg});
    return 0;
}

void AstraBackend::sim_schedule(timespec_t delta, void (*fun_ptr)(void *), void *fun_arg) {
    const long double units[] = {1.0L, 1e3L, 1e6L, 1e9L, 1e15L};  // in a second
    network_.schedule((double)(delta.time_val / units[delta.time_res]), {fun_ptr, fun_arg});
}

timespec_t AstraBackend::sim_get_time() const { return {NS, network_.now() * 1e9L}; }
