// Schedules whose phases stay whole in each group; groups that keep in step are started together.
#include <algorithm>

#include "run.hpp"

namespace fredfw {
namespace {

using Groups = std::vector<int32_t>;

class PhaseRun : public Run {
  public:
    PhaseRun(Given given, bool stepwise, int64_t times) : Run(std::move(given)), stepwise_(stepwise), times_(times) {
        left_.assign(groups_, (int32_t)schedule_.phases.size());
        make_channels(schedule_.channels, true, false);
    }

    void start() override {
        if (lowered_->launch == 0) launched();
        else network_.later(*this, What::LAUNCHED, lowered_->launch * (double)times_, ENDS, -1);
    }

    bool is_by_rank() const override { return false; }
    void io(Archive &archive) override {
        Run::io(archive);
        archive(stepwise_, times_, left_, waiting_, reached_, open_);
        for (Channel &channel : channels_) channel.io(archive);
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
        Cargo made;
        made.count = phase.flows * (int64_t)carry.items.size();
        made.block = std::max<int64_t>(phase.flows, 1);
        made.activities = (int64_t)carry.items.size();
        made.repeat = times_ * (carry.repetition < 0 ? phase.repeat : 1);
        made.period = phase.uniform() ? phase.volume_count : phase.flows;
        if (!which_.empty() || (int64_t)carry.items.size() < groups_) {
            made.members.reserve(made.count);
            for (int32_t group : carry.items)
                for (int64_t flow = 0; flow < phase.flows; flow++)
                    made.members.push_back((int32_t)lowered_flow(group * phase.flows + flow, phase.flows));
        }
        if (phase.uniform()) {
            made.volumes = phase.volumes;
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
    std::map<int32_t, std::vector<int32_t>> reached_;  // repetitions that each group is done with
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
            if (!schedule_.phases[index].waits() && schedule_.phases[index].room.empty())
                ready((int32_t)index, count_up(groups_));
    }

    void ready(int32_t index, const Groups &groups) {
        const int32_t channel = channel_of_[index];
        if (channel < 0) return begin(index, groups, 0);
        const Groups at_once = channels_[channel].ready(index, groups, network_.now);
        if (!at_once.empty()) begin(index, at_once, 0);
        if (at_once.size() < groups.size()) choose_later(channel, groups);
    }

    void choose(int32_t channel) {
        std::map<std::pair<int32_t, int32_t>, Groups> chosen;  // by turn and phase, for groups start together
        for (const auto &[index, groups] : channels_[channel].choose()) {
            Groups &together = chosen[{schedule_.keeps ? schedule_.phases[index].turn : index, index}];
            together.insert(together.end(), groups.begin(), groups.end());
        }
        for (const auto &[place, groups] : chosen) {
            const int32_t index = place.second;
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

    void let_go(int32_t index, const Groups &groups) {
        const int32_t channel = channel_of_[index];
        if (channel >= 0 && channels_[channel].release(index, groups)) choose_later(channel, groups);
    }

    // Begin the next repetition where one has ended; on a channel that others may have had, when it is free.
    void step(int32_t index, const Groups &groups, int64_t repetition) {
        if (!lets_go_early(index)) return begin(index, groups, repetition + 1);
        std::vector<int32_t> &reached = reached_[index];
        if (reached.empty()) reached.assign(groups_, 0);
        for (int32_t group : groups) reached[group] = (int32_t)repetition + 1;
        ready(index, groups);
    }

    void end(int32_t index, const Groups &groups) {
        let_go(index, groups);
        wait_less(schedule_.dependents[index], groups);
        if (!is_followed_early(index)) wait_less(schedule_.followers[index], groups);
        const Groups done = count_down(left_, groups);
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
            const Groups free = count_down(waiting, groups);
            if (!free.empty()) ready(dependent, free);
        }
    }
};

}  // namespace

std::unique_ptr<Run> phase_run(Given given, bool stepwise, int64_t times) {
    return std::make_unique<PhaseRun>(std::move(given), stepwise, times);
}

}  // namespace fredfw
