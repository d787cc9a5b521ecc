#include "tasks.hpp"

#include <algorithm>

namespace fredfw {

void Tasks::start() {
    const int64_t tasks = graph.tasks, edges = graph.edges;
    busy_.assign(graph.ranks, 0), freed_by_.assign(graph.ranks, -1), queues_.resize(graph.ranks);
    ended.assign(tasks, 0), missing_.assign(tasks, 0), before_offset_.assign(tasks + 1, 0), before_.resize(edges);
    for (int64_t edge = 0; edge < edges; edge++) {
        before_offset_[graph.edge_task[edge] + 1]++;
        missing_[graph.edge_task[edge]] += graph.edge_count[edge];
    }
    for (int64_t one = 0; one < tasks; one++) before_offset_[one + 1] += before_offset_[one];
    std::vector<int64_t> place(before_offset_.begin(), before_offset_.end() - 1);
    for (int64_t edge = 0; edge < edges; edge++) before_[place[graph.edge_task[edge]]++] = edge;
    for (Share &share : shares) {
        int32_t most = -1;
        for (int32_t group : share.served) most = std::max(most, group);
        share.place.assign(most + 1, -1);
        for (size_t one = 0; one < share.served.size(); one++) share.place[share.served[one]] = (int32_t)one;
    }
    spans.offset.push_back(0);
    for (int32_t task = 0; task < (int32_t)tasks; task++) {
        if (graph.whole[task]) {
            if (!missing_[task]) begin(task, -1);
            continue;
        }
        const Slots &missing = missing_of(task);
        Slots free;
        for (size_t slot = 0; slot < missing.size(); slot++)
            if (!missing[slot]) free.push_back((int32_t)slot);
        if (!free.empty()) ready(task, free, -1);
    }
}

// The slots of the later task of an edge that are `slots` of the earlier one.
Tasks::Slots Tasks::after(int64_t edge, const Slots &slots) const {
    if (graph.edge_map[edge] < 0) return slots;
    const int64_t *map = graph.map + graph.map_offset[graph.edge_map[edge]];
    Slots theirs;
    for (int32_t slot : slots)
        if (map[slot] >= 0) theirs.push_back((int32_t)map[slot]);
    return theirs;
}

// How many of the tasks before a task each slot still waits for.
Tasks::Slots &Tasks::missing_of(int32_t task) {
    Slots &missing = missing_of_[task];
    if (!missing.empty()) return missing;
    missing.assign(of(task).count(), 0);
    for (int64_t one = before_offset_[task]; one < before_offset_[task + 1]; one++) {
        const int64_t map = graph.edge_map[before_[one]];
        if (map < 0) {
            for (int32_t &count : missing) count++;
        } else {
            for (int64_t slot = graph.map_offset[map]; slot < graph.map_offset[map + 1]; slot++)
                if (graph.map[slot] >= 0) missing[graph.map[slot]]++;
        }
    }
    return missing;
}

int64_t Tasks::later(What what, double delay, int32_t priority, Pending pending) {
    const int64_t number = ++numbers_;
    pending_[number] = std::move(pending);
    return network_.calendar.push(network_.now + delay, priority, what, 0, 0, number);
}

void Tasks::happen(const Event &event) {
    if (event.what == What::ENTERS) return enter();
    const auto found = pending_.find(event.detail);
    const Pending what = std::move(found->second);
    pending_.erase(found);
    switch (event.what) {
    case What::COMPUTED: return computed(what);
    case What::PASSED: return end(what.task, what.slots, what.start, what.trigger, of(what.task).participants);
    case What::RECEIVED: return end_message(what.task, {what.start, what.trigger});
    default:  // nodes enter a message
        if (Run *run = network_.find_run(what.run))
            run->enter(what.slots, std::vector<int32_t>(what.slots.size(), what.mark));
    }
}

void Tasks::ready(int32_t task, const Slots &slots, int64_t trigger) {
    if (kind(task) == Kind::COMPUTE) compute(task, slots, trigger);
    else gather(task, slots, trigger);
}

void Tasks::begin(int32_t task, int64_t trigger) {
    switch (kind(task)) {
    case Kind::COMPUTE: return compute(task, everybody(task), trigger);
    case Kind::SEND: return send(task, trigger);
    case Kind::RECEIVE: return receive(task, trigger);
    case Kind::WAIT:
        later(What::PASSED, graph.seconds[task], ENDS, {task, everybody(task), network_.now, trigger, 0, 0});
        return;
    default: begin_groups(task, count_up(of(task).groups), trigger);
    }
}

void Tasks::end(int32_t task, const Slots &slots, double start, int64_t trigger, const Slots &ranks) {
    const int64_t span = (int64_t)spans.task.size();
    ended[task] += (int64_t)slots.size();
    done += (int64_t)slots.size();
    spans.task.push_back(task), spans.start.push_back(start), spans.end.push_back(network_.now);
    spans.trigger.push_back(trigger);
    spans.ranks.insert(spans.ranks.end(), ranks.begin(), ranks.end());
    spans.offset.push_back((int64_t)spans.ranks.size());
    release(task, slots, span);
}

void Tasks::release(int32_t task, const Slots &slots, int64_t span) {
    const bool all = (int64_t)slots.size() == of(task).count();
    for (int64_t edge = graph.edge_offset[task]; edge < graph.edge_offset[task + 1]; edge++) {
        const int32_t dependent = (int32_t)graph.edge_task[edge];
        if (graph.whole[dependent]) {
            const int64_t came = all ? graph.edge_count[edge] : (int64_t)after(edge, slots).size();
            if (came && !(missing_[dependent] -= came)) begin(dependent, span);
            continue;
        }
        const Slots free = count_down(missing_of(dependent), after(edge, slots));
        if (!free.empty()) ready(dependent, free, span);
    }
}

// --- computations

void Tasks::compute(int32_t task, const Slots &slots, int64_t trigger) {
    const Members &mine = of(task);
    bool free = true;
    for (int32_t slot : slots) free &= !busy_[mine.participants[slot]] && queues_[mine.participants[slot]].empty();
    if (free) return compute_now(task, slots, trigger);
    Slots ranks;
    for (int32_t slot : slots) {
        ranks.push_back(mine.participants[slot]);
        queues_[ranks.back()].push_back({waited_, network_.now, task, slot, trigger});
    }
    waited_++;
    // All that begins for the same reason begins together.
    ranks.insert(ranks.end(), freed_.begin(), freed_.end());
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    compute_next(ranks);
}

void Tasks::compute_next(const Slots &ranks) {
    // Those of one computation that begin for the same reason begin together, those first that were ready first.
    std::map<std::pair<int64_t, int64_t>, std::pair<Waiting, Slots>> starting;
    for (int32_t rank : ranks) {
        if (busy_[rank] || queues_[rank].empty()) continue;
        Waiting first = queues_[rank].front();
        queues_[rank].pop_front();
        // What makes it start is the computation that kept the rank busy until now.
        if (first.since < network_.now) first.trigger = freed_by_[rank];
        auto &group = starting.emplace(std::make_pair(first.order, first.trigger), std::make_pair(first, Slots())).first->second;
        group.second.push_back(first.slot);
    }
    for (auto &one : starting) {
        std::sort(one.second.second.begin(), one.second.second.end());
        compute_now(one.second.first.task, one.second.second, one.second.first.trigger);
    }
}

void Tasks::compute_now(int32_t task, const Slots &slots, int64_t trigger) {
    for (int32_t slot : slots) busy_[of(task).participants[slot]] = 1;
    std::map<double, Slots> by_factor;
    const double *factors = graph.factors ? graph.factors + graph.factor_offset[task] : nullptr;
    for (int32_t slot : slots) by_factor[factors ? factors[slot] : 1.0].push_back(slot);
    for (const auto &one : by_factor) {
        const double seconds = graph.seconds[task] * one.first;
        later(What::COMPUTED, seconds, ENDS, {task, one.second, network_.now, trigger, 0, 0});
    }
}

void Tasks::computed(const Pending &what) {
    for (int32_t slot : what.slots) freed_.push_back(of(what.task).participants[slot]);
    for (int32_t rank : freed_) busy_[rank] = 0, freed_by_[rank] = (int64_t)spans.task.size();
    end(what.task, what.slots, what.start, what.trigger, freed_);
    compute_next(freed_);
    freed_.clear();
}

// --- communication in groups

void Tasks::gather(int32_t task, const Slots &slots, int64_t trigger) {
    const bool is_transfer = kind(task) == Kind::TRANSFER;
    const bool streams = kind(task) == Kind::LOAD || kind(task) == Kind::STORE;
    if (by_rank() && !streams) return enter_later(task, slots, trigger);
    const Members &mine = of(task);
    Slots &absent = absent_[task];
    if (absent.empty()) absent.assign(mine.groups, is_transfer ? 1 : (int32_t)mine.size);
    std::vector<int32_t> groups;
    for (int32_t slot : slots)
        for (int32_t place : mine.groups_of[slot]) {
            if (is_transfer && place % mine.size) continue;  // it waits for its sender alone
            const int32_t group = (int32_t)(place / mine.size);
            if (!--absent[group]) groups.push_back(group);
        }
    std::sort(groups.begin(), groups.end());
    if (!groups.empty()) begin_groups(task, std::move(groups), trigger);
}

Run &Tasks::new_run(int32_t task, int64_t share, const std::vector<int32_t> &groups, int64_t trigger) {
    const Share &mine = shares[share];
    std::vector<int32_t> which;
    if (groups.size() < mine.served.size())
        for (int32_t group : groups) which.push_back(mine.place[group]);
    const int32_t label = (int32_t)graph.label[task], priority = (int32_t)graph.priority[task];
    auto run = made_run({network_, mine.lowered, std::move(which), label, priority}, graph.way, graph.times[task]);
    run->errand = {task, share, trigger, network_.now, groups};
    return *network_.find_run(network_.add(std::move(run)));
}

void Tasks::begin_groups(int32_t task, std::vector<int32_t> groups, int64_t trigger) {
    if (kind(task) == Kind::LOAD || kind(task) == Kind::STORE) {
        const int64_t stream = ++numbers_;
        network_.notify(FREDFW_STREAM, stream, task, groups);
        const size_t count = groups.size();
        streams_[stream] = {{task, -1, trigger, network_.now, std::move(groups)}, std::vector<uint8_t>(count), (int64_t)count};
        return;
    }
    for (int64_t one = graph.share_offset[task]; one < graph.share_offset[task + 1]; one++) {
        const Share &share = shares[graph.share[one]];
        std::vector<int32_t> mine;
        for (int32_t group : groups)
            if (group < (int32_t)share.place.size() && share.place[group] >= 0) mine.push_back(group);
        if (!mine.empty()) new_run(task, graph.share[one], mine, trigger).start();
    }
}

void Tasks::streamed(int64_t stream, const std::vector<int32_t> &over) {
    Stream &mine = streams_[stream];
    for (int32_t group : over) mine.served[group] = 1;
    mine.left -= (int64_t)over.size();
    const Errand errand = mine.errand;
    if (!mine.left) streams_.erase(stream);
    end_groups(errand, over);
}

void Tasks::compare(const Run &run, const std::vector<int32_t> &groups) {
    const int32_t first = shares[run.errand.share].served[0];
    for (int32_t group : groups)
        if (run.errand.groups[group] == first)
            compared.push_back({run.errand.task, run.errand.share, run.errand.began, network_.now});
}

void Tasks::end_groups(const Errand &errand, const std::vector<int32_t> &over) {
    const int32_t task = (int32_t)errand.task;
    const Members &mine = of(task);
    Slots slots;
    for (int32_t one : over) {
        const int64_t first = errand.groups[one] * mine.size;
        slots.insert(slots.end(), mine.slots.begin() + first, mine.slots.begin() + first + mine.size);
    }
    leave(task, std::move(slots), errand.began, errand.trigger);
}

// Note that slots are through with groups of a communication, one of each; those that are through with all have ended.
void Tasks::leave(int32_t task, Slots slots, double start, int64_t trigger) {
    const Members &mine = of(task);
    Slots &running = running_[task];
    if (running.empty()) {
        running.resize(mine.count());
        for (int64_t slot = 0; slot < mine.count(); slot++) running[slot] = (int32_t)mine.groups_of[slot].size();
    }
    for (int32_t slot : slots) running[slot]--;
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    Slots ranks, over;
    for (int32_t slot : slots) {
        ranks.push_back(mine.participants[slot]);
        if (!running[slot]) over.push_back(slot);
    }
    if (ended[task] + (int64_t)over.size() == mine.count()) running_.erase(task), absent_.erase(task), joined_.erase(task);
    end(task, over, start, trigger, ranks);
}

void Tasks::run_ended(Run &run, const std::vector<int32_t> &groups) {
    const int32_t task = (int32_t)run.errand.task;
    compare(run, groups);
    if (by_rank()) return;  // ranks are through on their own
    const Errand errand = run.errand;
    if (kind(task) != Kind::SEND) return end_groups(errand, groups);
    const Message message = {errand.began, errand.trigger};
    end_message(task, message);
    arrived(task, message);
}

// --- ranks that enter one by one

void Tasks::enter_later(int32_t task, const Slots &slots, int64_t trigger) {
    const Members &mine = of(task);
    const bool sender_alone = kind(task) == Kind::TRANSFER && !rendezvous();
    Joined &joined = joined_[task];
    if (joined.marks.empty()) joined.marks.assign(mine.slots.size(), -1), joined.run_of.assign(mine.groups, -1);
    if (joining_.empty()) network_.calendar.push(network_.now, ENTRIES, What::ENTERS, 0, 0, -1);
    if (std::find(joining_.begin(), joining_.end(), task) == joining_.end()) joining_.push_back(task);
    entries_.push_back({network_.now, trigger});
    const int64_t mark = (int64_t)entries_.size() - 1;
    for (int32_t slot : slots)
        for (int32_t place : mine.groups_of[slot]) {
            if (!sender_alone) {
                joined.marks[place] = mark;
            } else if (place % mine.size == 0) {  // all ranks of a group enter with its first one
                for (int64_t one = 0; one < mine.size; one++) joined.marks[place + one] = mark;
            }
        }
}

void Tasks::enter() {
    std::vector<int32_t> joining;
    joining.swap(joining_);
    for (int32_t task : joining) {
        const Members &mine = of(task);
        Joined &joined = joined_[task];
        std::vector<uint8_t> entering(mine.groups, 0);
        for (size_t place = 0; place < joined.marks.size(); place++)
            if (joined.marks[place] >= 0) entering[place / mine.size] = 1;
        for (int64_t one = graph.share_offset[task]; one < graph.share_offset[task + 1]; one++) {
            const Share &share = shares[graph.share[one]];
            std::vector<int32_t> begun;
            for (int32_t group : share.served)
                if (entering[group] && joined.run_of[group] < 0) begun.push_back(group);
            if (begun.empty()) continue;
            const Run &run = new_run(task, graph.share[one], begun, -1);
            for (int32_t group : begun) joined.run_of[group] = run.serial;
        }
        std::set<int64_t> runs;  // in the order in which they began
        for (int64_t group = 0; group < mine.groups; group++)
            if (entering[group]) runs.insert(joined.run_of[group]);
        std::vector<int64_t> marks(mine.slots.size(), -1);
        marks.swap(joined.marks);
        for (int64_t name : runs) {
            Run *run = network_.find_run(name);
            std::vector<int32_t> nodes, theirs;
            for (size_t one = 0; one < run->errand.groups.size(); one++)
                for (int64_t member = 0; member < mine.size; member++) {
                    const int64_t mark = marks[run->errand.groups[one] * mine.size + member];
                    if (mark < 0) continue;
                    nodes.push_back((int32_t)((int64_t)one * mine.size + member)), theirs.push_back((int32_t)mark);
                }
            run->enter(std::move(nodes), std::move(theirs));
        }
    }
}

void Tasks::run_through(Run &run, const std::vector<int32_t> &nodes, const std::vector<int64_t> &marks) {
    const int32_t task = (int32_t)run.errand.task;
    if (kind(task) == Kind::SEND) {
        for (int32_t node : nodes) {  // 0 has sent it, 1 has it
            const Message entry = entries_[marks[node]];
            if (node == 0) end_message(task, entry);
            else arrived(task, entry);
        }
        return;
    }
    const Members &mine = of(task);
    std::map<int64_t, Slots> by_mark;
    for (int32_t node : nodes)
        by_mark[marks[node]].push_back(mine.slots[run.errand.groups[node / mine.size] * mine.size + node % mine.size]);
    for (auto &[mark, slots] : by_mark) {
        const Message entry = entries_[mark];
        leave(task, std::move(slots), entry.start, entry.trigger);
    }
}

// --- messages

void Tasks::send(int32_t task, int64_t trigger) {
    const int32_t receive = (int32_t)graph.partner[task];
    Run &run = new_run(task, graph.share[graph.share_offset[task]], {0}, trigger);
    if (!by_rank()) return run.start();
    entries_.push_back({network_.now, trigger});
    const int32_t mark = (int32_t)entries_.size() - 1;
    Slots nodes = {0};
    if (!rendezvous() || posted_.count(receive)) {
        posted_.erase(receive);
        nodes.push_back(1);
    } else {
        unreceived_[receive] = run.serial;
    }
    later(What::MESSAGE_ENTERS, 0.0, ENTRIES, {task, nodes, 0.0, 0, run.serial, mark});
}

// Note that nothing but the message keeps a receive from its end.
void Tasks::receive(int32_t task, int64_t trigger) {
    const auto waits = unreceived_.find(task);
    if (arrivals_.erase(task)) {  // later, because the end of one may let the next one end, and so on
        later(What::RECEIVED, 0.0, ENDS, {task, {}, network_.now, trigger, 0, 0});
    } else if (waits != unreceived_.end()) {
        entries_.push_back({network_.now, trigger});
        later(What::MESSAGE_ENTERS, 0.0, ENTRIES, {task, {1}, 0.0, 0, waits->second, (int32_t)entries_.size() - 1});
        unreceived_.erase(waits);
    } else {
        posted_.insert(task);
    }
}

void Tasks::arrived(int32_t task, const Message &message) {
    const int32_t receive = (int32_t)graph.partner[task];
    if (missing_[receive]) {
        arrivals_[receive] = message;
    } else {
        posted_.erase(receive);
        end_message(receive, message);
    }
}

void Tasks::end_message(int32_t task, const Message &message) {
    end(task, everybody(task), message.start, message.trigger, of(task).participants);
}

}  // namespace fredfw
