// Schedules that run in groups on a network.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "channels.hpp"
#include "network.hpp"
#include "schedule.hpp"

namespace fredfw {

struct Carry {
    int64_t phase = 0, repetition = 0;
    std::vector<int32_t> items;        // flows, or groups
    std::vector<int32_t> repetitions;  // of flows
    int64_t left = 0;                  // activities that have not ended
    bool is_last = true;               // repetition of the phase
    // What somebody is asked about, who lets it in or tells what became of it: then of each item whether it has drained (1)
    // and ended (2).
    enum class Asked : int32_t { NOT, WAITS, LET_IN, TOLD } asked = Asked::NOT;
    std::vector<uint8_t> told;
    void io(Archive &archive) { archive(phase, repetition, items, repetitions, left, is_last, asked, told); }
};

// The task that a run is for, -1 for none, its share, and which groups of the task it runs in; see tasks.hpp.
struct Errand {
    int64_t task = -1, share = 0, trigger = -1;
    double began = 0.0;
    std::vector<int32_t> groups;
};

// What a run is made of; groups of those that were lowered, all where there are none.
struct Given {
    Network &network;
    std::shared_ptr<Lowered> lowered;
    std::vector<int32_t> which;
    int32_t label, priority;
};

class Run {
  public:
    int64_t number = -1, serial = 0;  // in the network
    int32_t label, priority;
    bool is_over = false;
    bool has_started = false;  // of a run that somebody started from outside
    Errand errand;  // what it is for

    explicit Run(Given given)
        : label(given.label), priority(given.priority), network_(given.network), lowered_(std::move(given.lowered)),
          which_(std::move(given.which)), schedule_(*lowered_->schedule), groups_(which_.empty() ? lowered_->groups : (int64_t)which_.size()) {}
    virtual ~Run() = default;

    virtual void start() = 0;
    // Have nodes (group * ranks + rank) enter now, rank by rank, with marks that are not less than those of earlier entries.
    virtual void enter(std::vector<int32_t>, std::vector<int32_t>) {}
    virtual void happen(const Event &event) = 0;
    virtual void drained(int64_t carry, const std::vector<int32_t> &activities) = 0;
    virtual void ended(int64_t carry, const std::vector<int32_t> &activities) = 0;
    virtual void cancel();
    virtual bool foresees() const { return false; }
    // Let go of links that were foreseen to be used alone, and put on them what is under way.
    virtual void give_up() {}
    // Give routes, flow and bytes of what has left its source until now and is not on the network.
    virtual bool is_by_rank() const = 0;
    virtual void io(Archive &archive) { archive(number, serial, label, priority, is_over, has_started, carries_); }
    virtual void moved(const std::function<void(const Routes &, int64_t, double)> &) {}

    const std::shared_ptr<Lowered> &shared() const { return lowered_; }
    const Lowered &lowered() const { return *lowered_; }
    const std::vector<int32_t> &which() const { return which_; }
    int64_t groups() const { return groups_; }
    Carry &carry(int64_t number) { return carries_[number]; }
    bool is_of_task() const { return errand.task >= 0; }
    bool knows_carry(int64_t number) const { return number >= 0 && number < carries_.size(); }
    void let_in(int64_t carry, bool asks, bool hears_drain);

  protected:
    Network &network_;
    std::shared_ptr<Lowered> lowered_;
    std::vector<int32_t> which_;
    Schedule &schedule_;
    int64_t groups_;
    Pool<Carry> carries_;
    std::vector<int32_t> channel_of_;  // of phases, -1 for none
    std::deque<Channel> channels_;

    void drop_carry(int64_t number);
    virtual Cargo cargo(const Carry &carry) = 0;  // but for what is the same of all carries
    void notify_ended(const std::vector<int32_t> &groups);
    void make_channels(const std::map<int32_t, std::vector<int32_t>> &phases, bool whole, bool rendezvous);
    void choose_later(int32_t channel, const std::vector<int32_t> &nodes);
    // Whether others have the channel of the phase during its latency.
    bool lets_go_early(int64_t phase) const { return channel_of_[phase] >= 0 && !schedule_.keeps; }
    // Whether a flow starts at once, whatever runs.
    bool is_open(int64_t phase, int64_t flow) const {
        const uint8_t *open = lowered_->phases[phase].open;
        return network_.open || (open && open[lowered_flow(flow, schedule_.phases[phase].flows)]);
    }
    // The flow of all groups that were lowered that one of these groups is.
    int64_t lowered_flow(int64_t flow, int64_t flows) const {
        return which_.empty() ? flow : which_[flow / flows] * flows + flow % flows;
    }
};

// Every rank at its own pace: it waits for no more than what it sends and receives itself. It is ready for a phase when it
// is done with all phases that the phase comes after or is behind. What it sends then starts, once its destination is done
// with those that make room for it; a stream starts when all of its sources are ready. It is done with the phase when all
// that it receives in it is delivered and all that it sends in it has drained; a rank without a part is done at once.
std::unique_ptr<Run> rank_run(Given given, bool rendezvous);
// Phases stay whole: one starts in a group when all that it waits for is over there; its repetitions are one volume, or
// follow each other where it is stepwise.
std::unique_ptr<Run> phase_run(Given given, bool stepwise, int64_t times);
inline std::unique_ptr<Run> made_run(Given given, int64_t way, int64_t times) {  // by the way of fredfw_run_new
    return way >= FREDFW_BY_RANK ? rank_run(std::move(given), way == FREDFW_RENDEZVOUS)
                                 : phase_run(std::move(given), way == FREDFW_STEPWISE, times);
}

// Write a run, or read one; there may be none.
void save_run(Archive &archive, Network &network, std::unique_ptr<Run> &run);

}  // namespace fredfw
