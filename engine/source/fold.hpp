// When ranks get how far in a schedule whose flows meet nobody: a recurrence over ranks, without events.
//
// A flow that has its links to itself drains in a time that is known. When a rank has done a step is then the latest of some
// sums of times before: a linear map in the max-plus algebra (Baccelli et al., "Synchronization and Linearity", 1992). It
// commutes with waiting, and it brings no two vectors of times further apart. So where one step adds the same to all ranks,
// each later step of the phase does, and the rest of its repetitions are jumped over.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "schedule.hpp"

namespace fredfw {

// How far a phase is at some moment; nodes and flows of all groups.
struct Standing {
    std::vector<int64_t> step;                         // repetition that each node is in, -1 before it is ready
    std::vector<int64_t> started, drained, delivered;  // how often each flow has
    std::vector<double> left;                          // bytes that each has to send of its latest start
    std::vector<double> carried;                       // bytes that each has sent
    std::vector<std::pair<int32_t, double>> arrivals;  // flows that have drained, and in how many seconds they arrive
};

class Fold {
  public:
    // What gives the times, or null where flows may meet or cannot move.
    static std::shared_ptr<Fold> of(const Lowered &lowered, const std::vector<int32_t> &which,
                                    const std::vector<double> &capacity, bool rendezvous);

    std::vector<int32_t> owners;  // group that uses each link, -1 for none

    // When nodes that have entered at some time are done with all phases; infinite for those that wait for somebody who
    // has not entered.
    std::vector<double> ends(const std::vector<double> &entered);
    // Give the phases that have begun by `now` at some node, and how far they are.
    void at(const std::vector<double> &entered, double now, const std::function<void(int64_t, const Standing &)> &tell);

  private:
    struct Steps {
        std::vector<double> rates;
        std::vector<uint8_t> member;  // of ranks: whether each takes part
        std::vector<double> drains;   // of flows, where repetitions are alike
        bool turns = false;           // whether each member sends to one other, and all drain as fast
    };
    const Lowered *lowered_;
    std::vector<int32_t> which_;  // of the groups that were lowered; all where it is empty
    int64_t groups_;
    Schedule *schedule_;
    bool rendezvous_;
    std::vector<Steps> steps_;
    std::mutex mutex_;
    std::vector<double> together_;  // ends, where all enter at once

    int64_t first_flow(int64_t index, int64_t group) const {
        return (which_.empty() ? group : which_[group]) * schedule_->phases[index].flows;
    }
    void drains_of(int64_t index, int64_t repetition, std::vector<double> &drains) const;
    std::vector<double> through(int64_t index, const std::vector<double> &ready) const;
    std::vector<double> rotated(int64_t index, const std::vector<double> &ready) const;
    void step(int64_t index, const Parties &parties, const std::vector<double> &drains, const std::vector<double> &ready,
              std::vector<double> &done, std::vector<double> *begins) const;
    void phases(const std::vector<double> &entered,
                const std::function<void(int64_t, const std::vector<double> &, const std::vector<double> &)> &tell) const;
    Standing standing(int64_t index, const std::vector<double> &ready, const std::vector<double> &through,
                      double now) const;
};

// The highest mark among the ranks that each waits for until it is done with all phases, itself included; NEVER for those
// that wait for somebody who has not entered. It is what the recurrence of times says of flows that take no time.
const int64_t NEVER = INT64_MAX;
std::vector<int64_t> last_awaited(Schedule &schedule, const int64_t *marks, bool rendezvous);

}  // namespace fredfw
