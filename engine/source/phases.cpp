// Schedules whose phases stay whole in each group; groups that keep in step are started together.
#include <algorithm>

#include "run.hpp"

namespace fredfw {
namespace {

using Groups = std::vector<int32_t>;

// The turns of phases in groups: which runs on each channel, and which is next.
class Turns {
  public:
    Turns(Schedule &schedule, int64_t groups)
        : schedule_(schedule), groups_(groups), since_(schedule.phases.size() * groups, INF),
          holds_(schedule.phases.size() * groups, 1), members_(schedule.phases.size()) {
        for (size_t one = 0; one < schedule.phases.size(); one++)
            if (schedule.phases[one].turn >= 0) members_[schedule.phases[one].turn].push_back((int32_t)one);
        for (size_t turn = 0; turn < members_.size(); turn++) {
            int64_t repetitions = 0;
            for (int32_t one : members_[turn]) repetitions += schedule.phases[one].repeat;
            if (repetitions > 1) first_[(int32_t)turn].assign(groups, INF);
        }
        for (const auto &one : schedule.channels) held_[one.first].assign(groups, -1);
    }

    void io(Archive &archive) { archive(since_, holds_, first_, held_); }

    // Note that a phase is ready in groups; return those where its turn has the channel already.
    Groups ready(int32_t index, const Groups &groups, double now) {
        const int32_t turn = schedule_.phases[index].turn;
        const auto first = first_.find(turn);
        Groups at_once;
        for (int32_t group : groups) {
            if (first == first_.end()) {
                since(index, group) = now;
            } else if (schedule_.keeps && held_[schedule_.phases[index].channel][group] == turn) {
                at_once.push_back(group);
            } else {
                first->second[group] = since(index, group) = std::min(first->second[group], now);
            }
        }
        return at_once;
    }

    // The phases that begin now on a channel, each with the groups where it does.
    std::vector<std::pair<int32_t, Groups>> choose(int32_t channel) {
        const std::vector<int32_t> &phases = schedule_.channels[channel];
        std::vector<int32_t> &held = held_[channel];
        std::map<size_t, Groups> chosen;  // by position
        for (int32_t group = 0; group < groups_; group++) {
            if (held[group] >= 0) continue;
            double least = INF;
            if (schedule_.smallest_first)
                for (int32_t one : phases)
                    if (since(one, group) < INF) least = std::min(least, schedule_.phases[one].turn_bytes);
            size_t best = 0;
            double earliest = INF;
            for (size_t place = 0; place < phases.size(); place++) {  // ties: the phase declared first
                double mine = since(phases[place], group);
                if (schedule_.smallest_first && mine < INF && schedule_.phases[phases[place]].turn_bytes != least) mine = INF;
                if (mine < earliest) earliest = mine, best = place;
            }
            if (earliest < INF) chosen[best].push_back(group);
        }
        std::vector<std::pair<int32_t, Groups>> begins;
        for (const auto &[place, groups] : chosen) {
            const int32_t phase = phases[place], turn = schedule_.phases[phase].turn;
            for (int32_t group : groups) held[group] = turn;
            for (int32_t one : schedule_.keeps ? members_[turn] : std::vector<int32_t>{phase}) {
                Groups mine;
                for (int32_t group : groups)
                    if (since(one, group) < INF) since(one, group) = INF, mine.push_back(group);
                if (!mine.empty()) begins.emplace_back(one, mine);
            }
        }
        return begins;
    }

    // Note that a phase lets go of its channel in groups; return whether it is free in any of them.
    bool leave(int32_t index, const Groups &groups) {
        const std::vector<int32_t> &members = members_[schedule_.phases[index].turn];
        bool any = false;
        Groups mine;
        for (int32_t group : groups)
            if (holds(index, group)) holds(index, group) = 0, mine.push_back(group);
        for (int32_t group : mine) {
            bool kept = false;
            if (members.size() > 1 && schedule_.keeps)
                for (int32_t one : members) kept |= holds(one, group);
            if (!kept) held_[schedule_.phases[index].channel][group] = -1, any = true;
        }
        return any;
    }

    void take_again(int32_t index, const Groups &groups) {
        for (int32_t group : groups) holds(index, group) = 1;
    }

  private:
    double &since(int32_t phase, int32_t group) { return since_[phase * groups_ + group]; }
    uint8_t &holds(int32_t phase, int32_t group) { return holds_[phase * groups_ + group]; }

    Schedule &schedule_;
    int64_t groups_;
    std::vector<double> since_;   // since when the turn of each phase is ready, where that is ready and has not begun
    std::vector<uint8_t> holds_;  // whether each phase has still to let go of its channel
    std::vector<std::vector<int32_t>> members_;           // phases of each turn
    std::map<int32_t, std::vector<double>> first_;        // since when a turn is ready, of those that get so again
    std::map<int32_t, std::vector<int32_t>> held_;        // turn that holds each channel
};

class PhaseRun : public Run {
  public:
    PhaseRun(Network &network, std::shared_ptr<Lowered> lowered, std::vector<int32_t> which, int32_t label,
             int32_t priority, bool stepwise, int64_t times)
        : Run(network, std::move(lowered), std::move(which), label, priority), stepwise_(stepwise), times_(times) {
        left_.assign(groups_, (int32_t)schedule_.phases.size());
        if (!schedule_.channels.empty()) turns_ = std::make_unique<Turns>(schedule_, groups_);
    }

    void start() override {
        if (lowered_->launch == 0) launched();
        else network_.later(*this, What::LAUNCHED, lowered_->launch * (double)times_, ENDS, -1);
    }

    void enter(std::vector<int32_t>, std::vector<int32_t>) override { start(); }
    bool is_by_rank() const override { return false; }
    void io(Archive &archive) override {
        Run::io(archive);
        archive(stepwise_, times_, left_, waiting_, reached_, dispatching_, open_);
        if (turns_) turns_->io(archive);
    }

    void happen(const Event &event) override {
        if (event.what == What::LAUNCHED) launched();
        else if (event.what == What::CHOOSES) choose((int32_t)event.detail);
        else finish(count_up(groups_));  // there are no phases
    }

    void drained(int64_t number, const std::vector<int32_t> &activities) override {
        const Carry &one = carries_[number];
        const int32_t index = (int32_t)one.phase;
        const Groups groups = chosen(one, activities);
        const bool followed = one.is_last && is_followed_early(index);
        if (lets_go_early(index)) let_go(index, groups);
        if (followed) wait_less(schedule_.followers[index], groups);
    }

    void ended(int64_t number, const std::vector<int32_t> &activities) override {
        Carry &one = carries_[number];
        const Groups groups = chosen(one, activities);
        const int32_t index = (int32_t)one.phase;
        const int64_t repetition = one.repetition;
        const bool is_last = one.is_last;
        one.left -= (int64_t)activities.size();
        if (!one.left) drop_carry(number);
        if (is_last) end(index, groups);
        else step(index, groups, repetition);
    }

  protected:
    Cargo cargo(const Carry &carry) override {
        const Phase &phase = schedule_.phases[carry.phase];
        const Lowered::Flows &flows = lowered_->phases[carry.phase];
        Cargo made;
        made.routes = flows.routes, made.caps = flows.caps;
        made.label = label, made.priority = priority;
        made.count = phase.flows * (int64_t)carry.items.size();
        made.block = std::max<int64_t>(phase.flows, 1);
        made.activities = (int64_t)carry.items.size();
        made.repeat = times_ * (carry.repetition < 0 ? phase.repeat : 1);
        made.period = std::max<int64_t>(phase.volumes.size() == 1 ? 1 : phase.flows, 1);
        if (!which_.empty() || (int64_t)carry.items.size() < groups_) {
            made.members.reserve(made.count);
            for (int32_t group : carry.items)
                for (int64_t flow = 0; flow < phase.flows; flow++)
                    made.members.push_back((int32_t)lowered_flow(group * phase.flows + flow, phase.flows));
        }
        if (phase.uniform()) {
            made.volumes = phase.volumes.data();
        } else {
            auto own = std::make_shared<std::vector<double>>(phase.flows);
            for (int64_t flow = 0; flow < phase.flows; flow++)
                (*own)[flow] = schedule_.volume(carry.phase, std::max<int64_t>(carry.repetition, 0), flow);
            made.volumes = own->data(), made.own = own;
        }
        return made;
    }

  private:
    bool stepwise_;
    int64_t times_;
    std::vector<int32_t> left_;  // phases that a group is not done with
    std::map<int32_t, std::vector<int32_t>> waiting_;  // phases before each that a group is not done with
    std::unique_ptr<Turns> turns_;
    std::map<int32_t, std::vector<int32_t>> reached_;  // repetitions that each group is done with
    std::vector<int32_t> dispatching_;                 // channels that are going to choose
    int64_t open_ = -1;

    static Groups chosen(const Carry &carry, const std::vector<int32_t> &activities) {
        Groups groups(activities.size());
        for (size_t one = 0; one < activities.size(); one++) groups[one] = carry.items[activities[one]];
        return groups;
    }

    void launched() {
        open_ = groups_;
        if (schedule_.phases.empty()) {
            network_.later(*this, What::EMPTY, 0.0, ENDS, -1);
            return;
        }
        for (size_t index = 0; index < schedule_.phases.size(); index++)
            if (!schedule_.phases[index].waits() && schedule_.phases[index].room.empty()) ready((int32_t)index, count_up(groups_));
    }

    void ready(int32_t index, const Groups &groups) {
        if (!turns_ || schedule_.phases[index].channel < 0) return begin(index, groups, 0);
        const Groups at_once = turns_->ready(index, groups, network_.now);
        if (!at_once.empty()) begin(index, at_once, 0);
        if (at_once.size() < groups.size()) choose_later(schedule_.phases[index].channel);
    }

    void choose_later(int32_t channel) {  // all that ends at this moment must be known before
        if (std::find(dispatching_.begin(), dispatching_.end(), channel) != dispatching_.end()) return;
        dispatching_.push_back(channel);
        network_.later(*this, What::CHOOSES, 0.0, CHANNELS, channel);
    }

    void choose(int32_t channel) {
        dispatching_.erase(std::find(dispatching_.begin(), dispatching_.end(), channel));
        for (const auto &[index, groups] : turns_->choose(channel)) {
            const auto reached = reached_.find(index);
            if (reached == reached_.end()) {
                begin(index, groups, 0);
                continue;
            }
            std::map<int32_t, Groups> by_repetition;
            for (int32_t group : groups) by_repetition[reached->second[group]].push_back(group);
            for (const auto &one : by_repetition) begin(index, one.second, one.first);
        }
    }

    bool steps(const Phase &phase) const { return phase.repeat > 1 && (stepwise_ || !phase.uniform()); }

    void begin(int32_t index, const Groups &groups, int64_t repetition) {
        const Phase &phase = schedule_.phases[index];
        const int64_t number = carries_.take();
        Carry &one = carries_[number];
        one.phase = index, one.repetition = steps(phase) ? repetition : -1;
        one.items = groups, one.left = (int64_t)groups.size();
        one.is_last = !steps(phase) || repetition + 1 == phase.repeat;
        bool starts_anyway = true;
        for (int32_t group : groups)
            for (int64_t flow = 0; flow < phase.flows && starts_anyway; flow++)
                starts_anyway = is_open(index, group * phase.flows + flow);
        let_in(number, !starts_anyway, (one.is_last && is_followed_early(index)) || lets_go_early(index));
    }

    // Whether others begin during the latency of the phase; of repetitions nobody says when they drain.
    bool is_followed_early(int32_t index) const {
        return !schedule_.followers[index].empty() && schedule_.phases[index].repeat * times_ == 1;
    }

    bool lets_go_early(int32_t index) const {
        return turns_ && !schedule_.keeps && schedule_.phases[index].channel >= 0;
    }

    void let_go(int32_t index, const Groups &groups) {
        const int32_t channel = schedule_.phases[index].channel;
        if (turns_ && channel >= 0 && turns_->leave(index, groups)) choose_later(channel);
    }

    // Begin the next repetition where one has ended; on a channel that others may have had, when it is free.
    void step(int32_t index, const Groups &groups, int64_t repetition) {
        if (!lets_go_early(index)) return begin(index, groups, repetition + 1);
        std::vector<int32_t> &reached = reached_[index];
        if (reached.empty()) reached.assign(groups_, 0);
        for (int32_t group : groups) reached[group] = (int32_t)repetition + 1;
        turns_->take_again(index, groups);
        ready(index, groups);
    }

    void end(int32_t index, const Groups &groups) {
        let_go(index, groups);
        wait_less(schedule_.dependents[index], groups);
        if (!is_followed_early(index)) wait_less(schedule_.followers[index], groups);
        Groups done;
        for (int32_t group : groups)
            if (!--left_[group]) done.push_back(group);
        if (!done.empty()) finish(done);
    }

    void finish(const Groups &groups) {
        open_ -= (int64_t)groups.size();
        if (!open_) is_over = true;
        notify_ended(groups);
    }

    void wait_less(const std::vector<int32_t> &dependents, const Groups &groups) {
        for (int32_t dependent : dependents) {
            const Phase &phase = schedule_.phases[dependent];
            const size_t before = phase.waits() + phase.room.size();
            if (before == 1) {
                if (!groups.empty()) ready(dependent, groups);
                continue;
            }
            std::vector<int32_t> &waiting = waiting_[dependent];
            if (waiting.empty()) waiting.assign(groups_, (int32_t)before);
            Groups free;
            for (int32_t group : groups)
                if (!--waiting[group]) free.push_back(group);
            if (!free.empty()) ready(dependent, free);
        }
    }
};

}  // namespace

std::unique_ptr<Run> phase_run(Network &network, std::shared_ptr<Lowered> lowered, std::vector<int32_t> which,
                               int32_t label, int32_t priority, bool stepwise, int64_t times) {
    return std::make_unique<PhaseRun>(network, std::move(lowered), std::move(which), label, priority, stepwise, times);
}

}  // namespace fredfw
