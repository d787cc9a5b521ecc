// Repetitions that are simulated as one volume, where something changes on the way: they are split at the current one.
//
// All repetitions drain before the latency or the next set-up of any is paid, and a fast flow runs ahead of the slowest of
// its activity. Where an activity really is, then, says its slowest flow: a repetition that drains in t, has a latency of l
// and a set-up of s takes t + l + s.
#include <algorithm>
#include <cmath>
#include <map>

#include "network.hpp"
#include "run.hpp"

namespace fredfw {
namespace {

const double ROUNDING = 1e-11;  // of what a flow has to send in a lap, what is less than this is rounding
// Flows were alone on their links if they have sent what they would have sent alone, to this share of it.
const double ALONE = 1e-9;

// One repetition of some flows of a batch, as they drain without other flows on their links: when each has drained, and
// what it has left some seconds after the beginning.
void replay(const Batch &batch, const std::vector<int32_t> &which, const std::vector<double> &capacity,
            const std::vector<double> &within, std::vector<double> &transfer, std::vector<double> &left) {
    Flows table((int64_t)capacity.size(), capacity.data(), MAX_MIN, 0, nullptr, nullptr, nullptr);
    const double weight = batch.weight;
    transfer.assign(which.size(), INF), left.assign(which.size(), 0.0);
    for (size_t one = 0; one < which.size(); one++) {
        const double volume = batch.cargo.volume(which[one]);
        const int64_t *offset = batch.routes().offset + batch.route(which[one]);
        const bool alone = volume <= LEAST || (offset[0] == offset[1] && std::isinf(batch.cargo.cap(which[one])));
        if (alone) {
            transfer[one] = 0.0;
            continue;
        }
        const int64_t slot = table.put(batch.routes(), batch.route(which[one]), volume / weight,
                                       batch.cargo.cap(which[one]) / weight, 0, weight, 0.0);
        table.member[slot] = (int32_t)one;
    }
    double time = 0.0;
    while (table.active) {
        Work work;
        table.settle(time, work);
        const double until = table.first_done();
        table.each_live([&](int32_t slot) {
            const double at = within[table.member[slot]];
            if (at >= time && at < until) left[table.member[slot]] = table.left(slot, at) * weight;
        });
        if (until == INF) break;
        const std::vector<int32_t> found = table.find_drained(until);
        for (int32_t slot : found) transfer[table.member[slot]] = until;
        table.drop(found);
        time = until;
    }
}

}  // namespace

// Find how far the flows of a batch are, and where repetitions are, of activities of which several are on the links.
Network::Position Network::position(const Batch &batch, const std::vector<int32_t> &slots) const {
    const Cargo &cargo = batch.cargo;
    Position at;
    at.sent.assign(cargo.count, 0.0);
    if (std::isnan(batch.since)) return at;
    for (int64_t flow = 0; flow < cargo.count; flow++) at.sent[flow] = batch.volume_laid(flow);
    for (int32_t slot : slots) at.sent[flows.member[slot]] -= flows.left(slot, now) * flows.scale[slot];
    if (cargo.repeat == 1) return at;
    const std::vector<double> sent = at.sent;
    at.mine.assign(cargo.count, 0), at.left.assign(cargo.count, 0.0), at.delay.assign(cargo.count, 0.0);
    at.done.assign(cargo.activities, 0);
    std::map<std::pair<double, int64_t>, std::vector<int32_t>> alike;  // flows that were put on the links together
    for (int64_t flow = 0; flow < cargo.count; flow++) {
        const int64_t activity = cargo.activity_of(flow);
        const int64_t laps = batch.laps ? batch.laps->now[activity] : cargo.repeat;
        const double since = batch.laps ? batch.laps->since[activity] : batch.since;
        if (laps > 1 && batch.pending[activity] >= 0) alike[{since, laps}].push_back((int32_t)flow);
    }
    for (const auto &[key, which] : alike) {
        const auto [since, laps] = key;
        const double elapsed = now - since;
        std::vector<double> transfer, left, alone(which.size(), elapsed / (double)laps);
        replay(batch, which, flows.capacity, alone, transfer, left);
        bool was_alone = true;
        for (size_t one = 0; one < which.size() && was_alone; one++) {
            const double volume = cargo.volume(which[one]);
            was_alone = std::abs(sent[which[one]] / (double)laps - (volume - left[one])) <= ALONE * volume;
        }
        std::vector<double> rates(which.size(), 0.0);
        for (size_t one = 0; one < which.size() && !was_alone; one++) {  // each drains at the mean rate that it has had
            const double seconds = std::min(batch.drained_at[which[one]], now) - since;
            const double volume = cargo.volume(which[one]);
            if (seconds > 0) rates[one] = sent[which[one]] / seconds;
            const bool at_once = batch.drained_at[which[one]] <= since;
            transfer[one] = volume > 0 && !at_once ? volume / rates[one] : 0.0;
        }
        std::map<int64_t, double> seconds;  // of a repetition, which the slowest flow says; by activity
        for (size_t one = 0; one < which.size(); one++) {
            double &mine = seconds.emplace(cargo.activity_of(which[one]), 0.0).first->second;
            mine = std::max(mine, transfer[one] + batch.routes().latency[batch.route(which[one])] + cargo.setup);
        }
        std::vector<double> within(which.size());
        for (size_t one = 0; one < which.size(); one++) {
            const int64_t activity = cargo.activity_of(which[one]);
            const double each = seconds[activity];
            double done = each > 0 ? elapsed / each : 0.0;
            done = std::min(std::floor(done * (1 + 1e-12)), (double)(laps - 1));
            at.done[activity] = (int64_t)done;
            within[one] = std::max(elapsed - (done > 0 ? done * each : 0.0), 0.0);
        }
        if (was_alone) {
            std::vector<double> again;
            replay(batch, which, flows.capacity, within, again, left);
        }
        for (size_t one = 0; one < which.size(); one++) {
            const int32_t flow = which[one];
            const int64_t done = at.done[cargo.activity_of(flow)];
            const double volume = cargo.volume(flow);
            double rest = was_alone ? left[one] : std::max(volume - rates[one] * within[one], 0.0);
            if (rest <= ROUNDING * volume) rest = 0.0;
            const double late = rest > 0 ? 0.0 : within[one] - std::min(transfer[one], within[one]);
            const double setup = done + 1 < laps ? cargo.setup : 0.0;
            at.mine[flow] = 1, at.left[flow] = rest;
            at.delay[flow] = std::max(batch.routes().latency[batch.route(flow)] + setup - late, 0.0);
            at.sent[flow] = (double)done * volume + volume - rest;
        }
    }
    return at;
}

void Network::make_laid(Batch &batch) {
    if (!batch.laid.empty()) return;
    std::vector<double> laid(batch.cargo.count), delay(batch.cargo.count);
    for (int64_t flow = 0; flow < batch.cargo.count; flow++)
        laid[flow] = batch.volume_laid(flow), delay[flow] = batch.delay_of(flow);
    batch.laid = std::move(laid), batch.delay = std::move(delay);
}

// Put flows of a batch, all that there are of some activities, on the links once more.
void Network::lay_again(int64_t number, const std::vector<int32_t> &which) {
    Batch &batch = batches_[number];
    std::vector<uint8_t> mine(batch.cargo.activities, 0);
    for (int32_t flow : which) mine[batch.cargo.activity_of(flow)] = 1;
    for (int64_t one = 0; one < batch.cargo.activities; one++)
        if (mine[one]) batch.laps->since[one] = batch.end[one] = now, batch.pending[one] = 0;
    for (int32_t flow : which) batch.pending[batch.cargo.activity_of(flow)]++;
    // Deliveries that were due are not any more.
    batch.serial = ++serials_;
    std::vector<int32_t> over;
    for (int64_t one = 0; one < batch.cargo.activities; one++)
        if (!mine[one] && !batch.pending[one]) over.push_back((int32_t)one);
    deliver(number, over);
    std::vector<int32_t> free;
    for (int32_t flow : which) {
        batch.drained_at[flow] = INF;
        lay(number, flow, batch.laid[flow], free);
    }
    drained(number, free);
}

// Leave on the links what the current repetitions of a batch have still to send; the others come after them.
void Network::split(int64_t number, const std::vector<int32_t> &slots) {
    Batch &batch = batches_[number];
    const Cargo &cargo = batch.cargo;
    if (!batch.there || cargo.repeat == 1 || std::isnan(batch.since) || !cargo.count) return;
    const Position at = position(batch, slots);
    if (!batch.laps) {
        batch.laps = std::make_unique<Laps>();
        batch.laps->now.assign(cargo.activities, cargo.repeat), batch.laps->later.assign(cargo.activities, 0);
        batch.laps->since.assign(cargo.activities, batch.since);
    }
    std::vector<int32_t> which, gone;
    make_laid(batch);
    for (int64_t flow = 0; flow < cargo.count; flow++) {
        if (!at.mine[flow]) continue;
        which.push_back((int32_t)flow), batch.laid[flow] = at.left[flow], batch.delay[flow] = at.delay[flow];
        account(cargo.label, batch.routes(), batch.route(flow), at.sent[flow]);
        Laps &laps = *batch.laps;
        const int64_t activity = cargo.activity_of(flow);
        if (laps.now[activity] > 1) laps.later[activity] = laps.now[activity] - at.done[activity] - 1, laps.now[activity] = 1;
    }
    if (which.empty()) return;
    for (int32_t slot : slots)
        if (at.mine[flows.member[slot]]) gone.push_back(slot);
    flows.drop(gone);
    batch.draining -= (int64_t)gone.size();
    lay_again(number, which);
}

// Start the repetitions that are left of activities; leave those that have none left. Returns whether there are any.
bool Network::next_laps(int64_t number, std::vector<int32_t> &activities) {
    Batch &batch = batches_[number];
    std::vector<int32_t> again, over;
    for (int32_t one : activities) (batch.laps->later[one] > 0 ? again : over).push_back(one);
    for (int32_t one : over) batch.pending[one] = -1;
    activities = over;
    if (!again.empty()) {
        if (rerouted) {  // a router has a say in where they go
            batch.laps->asked.resize(batch.cargo.activities, 0);
            for (int32_t one : again) batch.laps->asked[one] = 1;
            notify(FREDFW_ROUTE, number, 0, again);
        } else {
            go_on(number, again);
        }
    }
    return !over.empty();
}

void Network::go_on(int64_t number, const std::vector<int32_t> &again, const Routes *routes) {
    Batch &batch = batches_[number];
    const Cargo &cargo = batch.cargo;
    std::vector<uint8_t> mine(cargo.activities, 0);
    if (!batch.laps->asked.empty())
        for (int32_t one : again) batch.laps->asked[one] = 0;
    for (int32_t one : again) mine[one] = 1, batch.laps->now[one] = batch.laps->later[one], batch.laps->later[one] = 0;
    std::vector<int32_t> which;
    for (int64_t flow = 0; flow < cargo.count; flow++)
        if (mine[cargo.activity_of(flow)]) which.push_back((int32_t)flow);
    make_laid(batch);
    for (int32_t flow : which) account(cargo.label, batch.routes(), batch.route(flow), batch.laid[flow]);
    if (routes) {
        auto chosen = std::make_shared<OwnRoutes>();
        for (int64_t flow = 0; flow < cargo.count; flow++) {
            const bool begins = mine[cargo.activity_of(flow)];
            chosen->add(begins ? *routes : batch.routes(), begins ? flow : batch.route(flow));
        }
        chosen->bind();
        batch.detour = chosen;
        bool holds = false;
        for (int32_t flow : which) holds |= crosses_closed(batch.routes(), flow);
        if (holds) hold(cargo.label);
    }
    for (int32_t flow : which) {
        const double times = (double)batch.laps->now[cargo.activity_of(flow)];
        batch.laid[flow] = cargo.volume(flow) * times;
        batch.delay[flow] = batch.routes().latency[batch.route(flow)] * times + cargo.setup * (times - 1);
    }
    lay_again(number, which);
}

}  // namespace fredfw
