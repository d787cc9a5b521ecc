#include "channels.hpp"

#include <algorithm>

namespace fredfw {
Channel::Channel(Schedule &schedule, const std::vector<int32_t> &phases, int64_t groups, bool whole, bool rendezvous)
    : ranks_(whole ? 1 : schedule.ranks), keeps_(schedule.keeps), smallest_first_(schedule.smallest_first),
      runs_(groups * ranks_, -1), owes_(groups * ranks_, 0), place_(groups * ranks_, 0), order_(groups) {
    const int64_t nodes = groups * ranks_;
    std::map<int32_t, int32_t> turns;  // numbers, in the order of their first phases
    std::map<int32_t, size_t> by_turn;
    for (int32_t phase : phases) {
        const int32_t turn = schedule.phases[phase].turn;
        const int32_t number = turns.emplace(turn, (int32_t)turns.size()).first->second;
        size_t entry = entries_.size();
        if (keeps_) entry = by_turn.emplace(turn, entry).first->second;
        if (entry == entries_.size()) {
            entries_.emplace_back();
            Entry &made = entries_.back();
            made.turn = number;
            made.part.assign(ranks_, 0), made.sends.assign(ranks_, 0), made.since.assign(nodes, INF);
            if (smallest_first_) made.bytes = schedule.phases[phase].turn_bytes;
        }
        Entry &mine = entries_[entry];
        mine.phases.push_back(phase);
        entry_of_[phase] = (int32_t)entry;
        const auto parties = whole ? nullptr : schedule.parties(phase, rendezvous);
        std::vector<uint8_t> &part = part_[phase];
        part.assign(ranks_, 0);
        for (int64_t rank = 0; rank < ranks_; rank++) {
            const bool sends = whole || parties->sends[rank].size() > 0;
            part[rank] = sends || parties->receives[rank].size() > 0;
            mine.sends[rank] |= sends, mine.part[rank] |= part[rank];
        }
        ready_phase_[phase].assign(nodes, 0);
    }
    first_.assign(turns.size(), std::vector<double>(nodes, INF));
}

void Channel::io(Archive &archive) {
    archive(changed_, first_, ready_phase_, runs_, owes_, place_, order_);
    for (Entry &entry : entries_) archive(entry.since);
}

Channel::Nodes Channel::ready(int32_t phase, const Nodes &nodes, double now) {
    const int32_t number = entry_of_[phase];
    Entry &entry = entries_[number];
    const std::vector<uint8_t> &part = part_[phase];
    std::vector<double> &first = first_[entry.turn];
    Nodes running, inside;
    for (int32_t node : nodes) {
        if (!part[node % ranks_]) {
            running.push_back(node);
        } else if (keeps_ && runs_[node] == number) {
            inside.push_back(node);
        } else {
            first[node] = std::min(first[node], now);
            entry.since[node] = first[node];
            ready_phase_[phase][node] = 1;
        }
    }
    running.insert(running.end(), inside.begin(), inside.end());
    return running;
}

bool Channel::release(int32_t phase, const Nodes &nodes) {
    const std::vector<uint8_t> &part = part_[phase];
    bool any = false;
    for (int32_t node : nodes)
        if (part[node % ranks_] && runs_[node] == entry_of_[phase] && !--owes_[node]) runs_[node] = -1, any = true;
    return any;
}

bool Channel::note(const Nodes &nodes) {
    const bool is_first = changed_.empty();
    for (int32_t node : nodes) changed_.insert((int32_t)(node / ranks_));
    return is_first;
}

std::vector<std::pair<int32_t, Channel::Nodes>> Channel::choose() {
    std::vector<std::pair<int32_t, Nodes>> begins;
    for (int32_t group : changed_) {
        std::vector<int32_t> &order = order_[group];
        const int32_t from = (int32_t)(group * ranks_), to = (int32_t)((group + 1) * ranks_);
        for (;;) {
            skip(group);
            std::set<int32_t> places;
            for (int32_t node = from; node < to; node++)
                if (runs_[node] < 0 && place_[node] < (int32_t)order.size()) places.insert(place_[node]);
            std::vector<std::pair<int32_t, Nodes>> able;
            for (int32_t place : places) {
                Nodes nodes;
                for (int32_t node = from; node < to; node++)
                    if (runs_[node] < 0 && place_[node] == place && entries_[order[place]].since[node] < INF)
                        nodes.push_back(node);
                if (!nodes.empty()) able.emplace_back(order[place], std::move(nodes));
            }
            Nodes first;  // free before any has begun now
            for (int32_t node = from; node < to; node++)
                if (runs_[node] < 0 && place_[node] == (int32_t)order.size()) first.push_back(node);
            for (const auto &[entry, nodes] : able) {
                for (int32_t node : nodes) place_[node]++;
                begin(entry, nodes, begins);
            }
            int32_t best = -1;
            double earliest = INF, least = INF;
            std::vector<double> since(entries_.size(), INF);
            for (size_t one = 0; one < entries_.size(); one++) {
                for (int32_t node : first)
                    if (entries_[one].sends[node % ranks_]) since[one] = std::min(since[one], entries_[one].since[node]);
                if (since[one] < INF) least = std::min(least, entries_[one].bytes);
            }
            for (size_t one = 0; one < entries_.size(); one++) {  // ties: the phase declared first
                if (smallest_first_ && entries_[one].bytes != least) continue;
                if (since[one] < earliest) earliest = since[one], best = (int32_t)one;
            }
            if (best < 0) break;
            order.push_back(best);
        }
    }
    changed_.clear();
    return begins;
}

void Channel::begin(int32_t number, const Nodes &nodes, std::vector<std::pair<int32_t, Nodes>> &begins) {
    Entry &entry = entries_[number];
    for (int32_t node : nodes) {
        entry.since[node] = INF, runs_[node] = number, owes_[node] = 0;
        for (int32_t phase : entry.phases) owes_[node] += part_[phase][node % ranks_];
    }
    for (int32_t phase : entry.phases) {
        Nodes able;
        for (int32_t node : nodes)
            if (ready_phase_[phase][node]) ready_phase_[phase][node] = 0, able.push_back(node);
        if (!able.empty()) begins.emplace_back(phase, std::move(able));
    }
}

// Take the nodes of a group past turns in which they have no part.
void Channel::skip(int32_t group) {
    const std::vector<int32_t> &order = order_[group];
    for (int32_t node = (int32_t)(group * ranks_); node < (group + 1) * ranks_; node++)
        while (place_[node] < (int32_t)order.size() && !entries_[order[place_[node]]].part[node % ranks_]) place_[node]++;
}

}  // namespace fredfw
