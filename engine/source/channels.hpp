// A channel in every group, rank by rank, or in whole groups, which are like one rank each. A group's turns have one
// order: next goes the turn that was ready first at a node that sends in it, or the one with the fewest bytes of
// those that are ready, where the channel is free. A node follows that order, but for turns in which it has no part;
// else two ranks could each wait for what the other would send in the turn that it has put last. Where a turn lets go
// of its channel during its latencies, each repetition of its phases is an entry of its own.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "schedule.hpp"

namespace fredfw {

class Channel {
  public:
    using Nodes = std::vector<int32_t>;

    Channel(Schedule &schedule, const std::vector<int32_t> &phases, int64_t groups, bool whole, bool rendezvous);

    void io(Archive &archive);  // of one that was made for the same schedule

    // Note that nodes are ready for a phase; return those that need not wait: they have no part in it, or are in its turn.
    Nodes ready(int32_t phase, const Nodes &nodes, double now);
    // Note that nodes let go of the channel, as far as the phase is concerned; return whether any is free now.
    bool release(int32_t phase, const Nodes &nodes);
    // Have the groups of nodes choose; return whether no other has been noted.
    bool note(const Nodes &nodes);
    // The phases that begin now in those groups, each with the nodes where it does.
    std::vector<std::pair<int32_t, Nodes>> choose();

  private:
    struct Entry {
        std::vector<int32_t> phases;
        int32_t turn = 0;
        double bytes = 0.0;
        std::vector<uint8_t> part, sends;  // of ranks
        std::vector<double> since;         // of nodes: since when it is ready where it has not begun
    };
    int64_t ranks_;
    std::set<int32_t> changed_;  // groups
    bool keeps_, smallest_first_;
    std::vector<Entry> entries_;
    std::map<int32_t, int32_t> entry_of_;                 // phases
    std::vector<std::vector<double>> first_;              // of turns and nodes: since when each is ready
    std::map<int32_t, std::vector<uint8_t>> part_;        // of phases and ranks
    std::map<int32_t, std::vector<uint8_t>> ready_phase_; // of phases and nodes
    std::vector<int32_t> runs_, owes_, place_;            // of nodes
    std::vector<std::vector<int32_t>> order_;             // of groups

    void skip(int32_t group);
    void begin(int32_t entry, const Nodes &nodes, std::vector<std::pair<int32_t, Nodes>> &begins);
};

}  // namespace fredfw
