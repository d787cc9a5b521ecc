// Schedules as tables: phases with the ends of their flows, what they wait for, and the channels on which they take turns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "flows.hpp"
#include "fredfw.h"

namespace fredfw {

inline std::vector<int32_t> count_up(int64_t count) {
    std::vector<int32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

// Count down for each of some; return those that have come to 0.
inline std::vector<int32_t> count_down(std::vector<int32_t> &left, const std::vector<int32_t> &some) {
    std::vector<int32_t> over;
    for (int32_t one : some)
        if (!--left[one]) over.push_back(one);
    return over;
}

// Rows of different lengths.
struct Table {
    std::vector<int32_t> offset = {0}, value;

    struct Row {
        const int32_t *first, *last;
        const int32_t *begin() const { return first; }
        const int32_t *end() const { return last; }
        int64_t size() const { return last - first; }
    };
    Row operator[](int64_t row) const { return {value.data() + offset[row], value.data() + offset[row + 1]}; }
    template <class Value> void add(const Value *begin, const Value *end) {  // a row
        value.insert(value.end(), begin, end);
        offset.push_back((int32_t)value.size());
    }
    static Table turned(const Table &table, int64_t rows);  // row and value swapped
    void io(Archive &archive) { archive(offset, value); }
};

// Who takes part in the flows of a phase in one group.
struct Parties {
    Table sources, destinations, starters;  // ranks, of each flow; the last must be ready before it starts
    Table sends, receives, starts;          // flows, of each rank
};

// What the caller says of it, who keeps the arrays; its lists of phases are here as others.
struct Phase : fredfw_phase {
    std::vector<int32_t> after, behind, room;
    int64_t flows = 0;
    Table rows_of;  // of each flow, made when it is needed

    bool uniform() const { return volumes || !rows; }  // whether all repetitions are alike
    double volume(int64_t flow) const { return volumes[volume_count == 1 ? 0 : flow]; }
    size_t waits() const { return after.size() + behind.size(); }
};

// What callers give; see fredfw.h.
void io(Archive &archive, fredfw_routes &routes);
void io(Archive &archive, fredfw_phase &phase);
void io(Archive &archive, fredfw_flows &flows);

class Schedule {
  public:
    int64_t ranks = 0, flags = 0;
    std::vector<Phase> phases;
    bool smallest_first = false, keeps = true;  // the policy; whether a turn keeps its channel until it is delivered
    int64_t steps = 0;

    void finish();  // after all that the caller gives is there, and possible
    void given(Archive &archive) {
        archive(ranks, flags);
        archive.each(phases, sizeof(fredfw_phase));
    }
    void io(Archive &archive) {
        given(archive);
        if (archive.reads()) finish();
    }
    std::shared_ptr<const Parties> parties(int64_t phase, bool rendezvous);
    double volume(int64_t phase, int64_t repetition, int64_t flow);
    // Whether a phase is done before another begins, directly or through others; false where they are too many to know.
    bool precedes(int64_t earlier, int64_t later);
    bool knows_order();

    std::vector<std::vector<int32_t>> dependents, followers, goes_on, admits;
    std::map<int32_t, std::vector<int32_t>> channels;  // phases of each
    // Channels whose phases do not come one after the other anyway.
    const std::map<int32_t, std::vector<int32_t>> &choices();

  private:
    std::recursive_mutex mutex_;  // what is made when it is needed may be needed by networks in several threads
    std::vector<std::shared_ptr<const Parties>> parties_[2];
    int64_t kept_ = 0;
    bool ordered_ = false, chosen_ = false;
    std::vector<std::vector<uint64_t>> before_;
    std::map<int32_t, std::vector<int32_t>> choices_;
};

class Fold;

// A schedule in groups of a fabric: node n of group g is group * ranks + rank, flow f of a phase is group * flows + f.
struct Lowered {
    std::shared_ptr<Schedule> schedule;
    int64_t groups = 0, links = 0;  // of the fabric
    double launch = 0.0;            // seconds before the first flow
    std::vector<fredfw_flows> phases;
    // Of some of the groups, by rendezvous, on links that are as they were; null where flows may meet.
    std::map<std::vector<int32_t>, std::shared_ptr<Fold>> folds[2];
    std::mutex mutex;  // of those
    void given(Archive &archive) {
        archive(groups, links, launch);
        archive.each(phases, sizeof(fredfw_flows));
    }
    void io(Archive &archive) {
        archive(schedule);
        given(archive);
    }
};

}  // namespace fredfw

// What the border gives out of these.
struct fredfw_schedule {
    std::shared_ptr<fredfw::Schedule> schedule;
};

struct fredfw_lowered {
    std::shared_ptr<fredfw::Lowered> lowered;
};
