#include "fold.hpp"

#include <algorithm>

namespace fredfw {
namespace {

// So many steps are not folded: where no jump is found, each has to be looked at, in one event.
const int64_t MOST_STEPS = 1 << 22;
const double EXACT = 1e-13;  // a jump over steps may be off by so much, relative: less than the rounding of the steps

bool waits_for(const Parties &before, int32_t earlier, const Parties &now, int32_t later) {
    for (int32_t one : now.starters[later])
        for (const Table::Row &ranks : {before.sources[earlier], before.destinations[earlier]})
            if (std::find(ranks.begin(), ranks.end(), one) != ranks.end()) return true;
    return false;
}

// Follow values of nodes from phase to phase: each is ready with the highest of those before it, and has room with the
// highest of those that make room. `through` sets what they are through with, and returns whether that is all.
template <class Value, class Through>
void follow(const std::vector<Phase> &phases, const std::vector<Value> &entered, Through through) {
    std::vector<int64_t> uses(phases.size(), 0);
    for (const Phase &phase : phases)
        for (const auto *waits : {&phase.after, &phase.behind, &phase.room})
            for (int32_t one : *waits) uses[one]++;
    std::vector<std::vector<Value>> done(phases.size());
    for (size_t index = 0; index < phases.size(); index++) {
        const Phase &phase = phases[index];
        std::vector<Value> ready = entered, room, mine;
        if (!phase.room.empty()) room = entered;
        for (const auto *waits : {&phase.after, &phase.behind, &phase.room})
            for (int32_t one : *waits) {
                std::vector<Value> &highest = waits == &phase.room ? room : ready;
                for (size_t node = 0; node < highest.size(); node++)
                    highest[node] = std::max(highest[node], done[one][node]);
                if (!--uses[one]) done[one] = {};  // there may be thousands of phases
            }
        if (through((int64_t)index, ready, room, mine)) return;
        if (uses[index]) done[index] = std::move(mine);
    }
}

}  // namespace

// Flows that follow each other over a link do not meet if a node that the later one waits for takes part in the earlier one,
// in a phase before: it is ready when that has drained.
std::shared_ptr<Fold> Fold::of(const Lowered &lowered, const std::vector<int32_t> &which,
                               const std::vector<double> &capacity, bool rendezvous) {
    Schedule &schedule = *lowered.schedule;
    if (schedule.steps > MOST_STEPS || !schedule.knows_order() || !schedule.choices().empty()) return nullptr;
    for (const Phase &phase : schedule.phases)
        if (!phase.room.empty()) return nullptr;
    auto made = std::make_shared<Fold>();
    made->lowered_ = &lowered, made->schedule_ = &schedule, made->rendezvous_ = rendezvous;
    made->which_ = which, made->groups_ = which.empty() ? lowered.groups : (int64_t)which.size();
    std::vector<int32_t> users(capacity.size(), -1), flow_of(capacity.size(), -1);
    made->owners.assign(capacity.size(), -1);
    for (size_t index = 0; index < schedule.phases.size(); index++) {
        const Phase &phase = schedule.phases[index];
        const Routes &routes = lowered.phases[index].routes;
        const double *caps = lowered.phases[index].caps;
        const int64_t flows = phase.flows * made->groups_;
        std::shared_ptr<const Parties> parties, others;
        int64_t other_phase = -1;
        made->steps_.emplace_back();
        Steps &steps = made->steps_.back();
        steps.rates.resize(flows);
        for (int64_t flow = 0; flow < flows; flow++) {
            const int64_t route = made->first_flow((int64_t)index, flow / phase.flows) + flow % phase.flows;
            double rate = caps ? caps[route] : INF;
            for (int64_t pair = routes.offset[route]; pair < routes.offset[route + 1]; pair++) {
                const int64_t link = routes.link[pair];
                rate = std::min(rate, capacity[link] / (routes.coefficient ? routes.coefficient[pair] : 1.0));
                const int32_t before = users[link];
                if (before == (int32_t)index) return nullptr;
                if (before >= 0) {
                    if (!schedule.precedes(before, (int64_t)index)) return nullptr;
                    if (flow / phase.flows != made->owners[link]) return nullptr;
                    if (!parties) parties = schedule.parties((int64_t)index, rendezvous);
                    if (other_phase != before) others = schedule.parties(before, rendezvous), other_phase = before;
                    if (!waits_for(*others, (int32_t)(flow_of[link] % schedule.phases[before].flows), *parties,
                                   (int32_t)(flow % phase.flows)))
                        return nullptr;
                }
                users[link] = (int32_t)index, flow_of[link] = (int32_t)flow;
                made->owners[link] = (int32_t)(flow / phase.flows);
            }
            if (rate == 0) return nullptr;
            steps.rates[flow] = rate;
        }
        if (!parties) parties = schedule.parties((int64_t)index, rendezvous);
        steps.member.resize(schedule.ranks);
        bool once = phase.uniform() && phase.flows == phase.unicasts && phase.flows > 0;
        for (int64_t rank = 0; rank < schedule.ranks; rank++) {
            const int64_t sends = parties->sends[rank].size(), receives = parties->receives[rank].size();
            steps.member[rank] = sends || receives;
            once &= (sends == 1 && receives == 1) || (!sends && !receives);
        }
        if (phase.uniform()) made->drains_of((int64_t)index, 0, steps.drains);
        steps.turns = once && !rendezvous &&
                      std::all_of(steps.drains.begin(), steps.drains.end(), [&](double one) { return one == steps.drains[0]; });
    }
    return made;
}

void Fold::drains_of(int64_t index, int64_t repetition, std::vector<double> &drains) const {
    const Phase &phase = schedule_->phases[index];
    drains.resize(phase.flows * groups_);
    for (int64_t flow = 0; flow < phase.flows; flow++) {
        const double volume = schedule_->volume(index, repetition, flow);
        for (int64_t group = 0; group < groups_; group++) {
            const int64_t one = group * phase.flows + flow;
            drains[one] = volume > 0 ? volume / steps_[index].rates[one] : 0.0;
        }
    }
}

// What is sent keeps a node until it has drained, what is received until it is delivered.
void Fold::step(int64_t index, const Parties &parties, const std::vector<double> &drains, const std::vector<double> &ready,
                std::vector<double> &done, std::vector<double> *begins) const {
    const Phase &phase = schedule_->phases[index];
    const double *all = lowered_->phases[index].routes.latency;
    const int64_t ranks = schedule_->ranks;
    const bool alone = phase.flows == phase.unicasts && !rendezvous_;
    done = ready;
    for (int64_t group = 0, flow = 0; group < groups_; group++) {
        const double *from = ready.data() + group * ranks, *latency = all + first_flow(index, group);
        double *to = done.data() + group * ranks;
        for (int64_t one = 0; one < phase.flows; one++, flow++) {
            double begin;
            if (alone) {
                begin = from[phase.source[one]];
            } else {
                begin = -INF;
                for (int32_t rank : parties.starters[one]) begin = std::max(begin, from[rank]);
            }
            if (begins) (*begins)[flow] = begin;
            const double drained = begin + drains[flow], delivered = begin + (drains[flow] + latency[one]);
            if (alone) {
                to[phase.source[one]] = std::max(to[phase.source[one]], drained);
                to[phase.destination[one]] = std::max(to[phase.destination[one]], delivered);
            } else {
                for (int32_t rank : parties.sources[one]) to[rank] = std::max(to[rank], drained);
                for (int32_t rank : parties.destinations[one]) to[rank] = std::max(to[rank], delivered);
            }
        }
    }
}

std::vector<double> Fold::through(int64_t index, const std::vector<double> &ready) const {
    const Phase &phase = schedule_->phases[index];
    const Steps &steps = steps_[index];
    if (!phase.flows) return ready;
    if (steps.turns) return rotated(index, ready);
    const auto parties = schedule_->parties(index, rendezvous_);
    std::vector<double> now = ready, done, drains = steps.drains;
    for (int64_t repetition = 0; repetition < phase.repeat; repetition++) {
        if (!phase.uniform()) drains_of(index, repetition, drains);
        step(index, *parties, drains, now, done, nullptr);
        const int64_t left = phase.repeat - repetition - 1;
        if (phase.uniform() && !(repetition & (repetition + 1))) {  // now and then
            double low = INF, high = -INF, most = -INF;
            bool alike = true, any = false;
            for (size_t node = 0; node < now.size(); node++) {
                if (!steps.member[node % schedule_->ranks]) continue;
                const bool known = done[node] < INF;
                alike &= known == (now[node] < INF);
                if (!known) continue;
                any = true;
                low = std::min(low, done[node] - now[node]), high = std::max(high, done[node] - now[node]);
                most = std::max(most, done[node]);
            }
            if (!any) return done;
            if (alike && (high - low) * (double)left <= EXACT * most) {
                for (size_t node = 0; node < now.size(); node++)
                    if (steps.member[node % schedule_->ranks]) done[node] += (double)left * (low + high) / 2;
                return done;
            }
        }
        now.swap(done);
    }
    return now;
}

// When members are through where each step is: drain, and wait for the one before if that is later. After k steps a member
// has waited for the latest of all that are up to k before it, with the latencies between. Of twice as many that is the
// later of two halves.
std::vector<double> Fold::rotated(int64_t index, const std::vector<double> &ready) const {
    const Phase &phase = schedule_->phases[index];
    const int64_t ranks = schedule_->ranks, nodes = (int64_t)ready.size();
    std::vector<int64_t> before(nodes), twice(nodes);
    std::vector<double> wait(nodes, 0.0), wait_twice(nodes), reach = ready, farther(nodes), found;
    for (int64_t node = 0; node < nodes; node++) before[node] = node;
    for (int64_t group = 0; group < groups_; group++)
        for (int64_t flow = 0; flow < phase.flows; flow++) {
            const int64_t to = group * ranks + phase.destination[flow];
            before[to] = group * ranks + phase.source[flow];
            wait[to] = lowered_->phases[index].routes.latency[first_flow(index, group) + flow];
        }
    for (int64_t window = phase.repeat + 1;;) {  // of members before it, and itself
        if (window & 1) {
            if (found.empty()) {
                found = reach;
            } else {
                for (int64_t node = 0; node < nodes; node++)
                    farther[node] = std::max(reach[node], found[before[node]] + wait[node]);
                found = farther;
            }
        }
        window >>= 1;
        if (!window) break;
        for (int64_t node = 0; node < nodes; node++) {
            farther[node] = std::max(reach[node], reach[before[node]] + wait[node]);
            wait_twice[node] = wait[node] + wait[before[node]], twice[node] = before[before[node]];
        }
        reach.swap(farther), wait.swap(wait_twice), before.swap(twice);
    }
    const double drain = steps_[index].drains[0];
    for (int64_t node = 0; node < nodes; node++)
        found[node] = steps_[index].member[node % ranks] ? found[node] + (double)phase.repeat * drain : ready[node];
    return found;
}

void Fold::phases(const std::vector<double> &entered,
                  const std::function<void(int64_t, const std::vector<double> &, const std::vector<double> &)> &tell) const {
    using Times = std::vector<double>;
    follow(schedule_->phases, entered, [&](int64_t index, const Times &ready, const Times &, Times &done) {
        done = through(index, ready);
        tell(index, ready, done);
        return false;
    });
}

std::vector<double> Fold::ends(const std::vector<double> &entered) {
    const bool at_once = std::all_of(entered.begin(), entered.end(), [](double one) { return one == 0; });
    if (at_once) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!together_.empty()) return together_;
    }
    std::vector<double> end = entered;
    phases(entered, [&](int64_t, const std::vector<double> &, const std::vector<double> &done) {
        for (size_t node = 0; node < end.size(); node++) end[node] = std::max(end[node], done[node]);
    });
    if (at_once) {
        const std::lock_guard<std::mutex> lock(mutex_);
        together_ = end;
    }
    return end;
}

void Fold::at(const std::vector<double> &entered, double now,
              const std::function<void(int64_t, const Standing &)> &tell) {
    phases(entered, [&](int64_t index, const std::vector<double> &ready, const std::vector<double> &through) {
        if (!ready.empty() && *std::min_element(ready.begin(), ready.end()) <= now)
            tell(index, standing(index, ready, through, now));
    });
}

Standing Fold::standing(int64_t index, const std::vector<double> &ready, const std::vector<double> &through,
                        double now) const {
    const Phase &phase = schedule_->phases[index];
    const Routes &routes = lowered_->phases[index].routes;
    const int64_t flows = phase.flows * groups_, ranks = schedule_->ranks;
    Standing found;
    found.left.assign(flows, 0.0), found.carried.assign(flows, 0.0);
    if (*std::max_element(through.begin(), through.end()) <= now) {
        found.step.assign(ready.size(), phase.repeat);
        found.started.assign(flows, phase.repeat);
        found.drained = found.delivered = found.started;
        for (int64_t flow = 0; flow < flows; flow++) {
            if (phase.uniform()) {
                found.carried[flow] = phase.volume(flow % phase.flows) * (double)phase.repeat;
                continue;
            }
            for (int64_t repetition = 0; repetition < phase.repeat; repetition++)
                found.carried[flow] += schedule_->volume(index, repetition, flow % phase.flows);
        }
        return found;
    }
    found.started.assign(flows, 0), found.drained.assign(flows, 0), found.delivered.assign(flows, 0);
    found.step.resize(ready.size());
    bool any = false;
    for (size_t node = 0; node < ready.size(); node++) {
        const bool member = steps_[index].member[node % ranks];
        any |= member;
        found.step[node] = ready[node] > now ? -1 : member ? 0 : phase.repeat;
    }
    if (!any) return found;
    const auto parties = schedule_->parties(index, rendezvous_);
    std::vector<double> times = ready, done, begins(flows), drains = steps_[index].drains;
    for (int64_t repetition = 0; repetition < phase.repeat; repetition++) {
        if (!phase.uniform()) drains_of(index, repetition, drains);
        step(index, *parties, drains, times, done, &begins);
        bool begun = false;
        for (int64_t flow = 0; flow < flows; flow++) {
            const int64_t route = first_flow(index, flow / phase.flows) + flow % phase.flows;
            const double drained = begins[flow] + drains[flow], arrival = drained + routes.latency[route];
            if (!(begins[flow] <= now)) continue;
            begun = true;
            found.started[flow]++;
            found.carried[flow] += schedule_->volume(index, repetition, flow % phase.flows);
            found.drained[flow] += drained <= now, found.delivered[flow] += arrival <= now;
            if (drained > now) found.left[flow] = (drained - now) * steps_[index].rates[flow];
            else if (arrival > now) found.arrivals.emplace_back((int32_t)flow, arrival - now);
        }
        for (size_t node = 0; node < times.size(); node++)
            if (steps_[index].member[node % ranks]) found.step[node] += done[node] <= now;
        if (!begun) break;
        times.swap(done);
    }
    for (int64_t flow = 0; flow < flows; flow++) found.carried[flow] -= found.left[flow];
    return found;
}

std::vector<int64_t> last_awaited(Schedule &schedule, const int64_t *marks, bool rendezvous) {
    const int64_t ranks = schedule.ranks;
    const std::vector<int64_t> entered(marks, marks + ranks);
    const int64_t highest = *std::max_element(entered.begin(), entered.end());
    if (std::all_of(entered.begin(), entered.end(), [&](int64_t one) { return one == highest; })) return entered;
    std::vector<int64_t> last = entered;
    using Marks = std::vector<int64_t>;
    follow(schedule.phases, entered, [&](int64_t index, Marks &ready, const Marks &room, Marks &done) {
        const Phase &phase = schedule.phases[index];
        const auto parties = schedule.parties(index, rendezvous);
        for (int64_t repetition = 0; repetition < phase.repeat; repetition++) {
            done = ready;
            for (int64_t flow = 0; flow < phase.flows; flow++) {
                int64_t begin = 0;
                for (int32_t rank : parties->starters[flow]) begin = std::max(begin, ready[rank]);
                if (!phase.room.empty() && !repetition)
                    for (int32_t rank : parties->destinations[flow]) begin = std::max(begin, room[rank]);
                for (int32_t rank : parties->sources[flow]) done[rank] = std::max(done[rank], begin);
                for (int32_t rank : parties->destinations[flow]) done[rank] = std::max(done[rank], begin);
            }
            if (done == ready) break;
            ready.swap(done);
        }
        for (int64_t rank = 0; rank < ranks; rank++) last[rank] = std::max(last[rank], ready[rank]);
        done.swap(ready);
        return std::all_of(last.begin(), last.end(), [&](int64_t one) { return one == highest; });
    });
    return last;
}

}  // namespace fredfw
