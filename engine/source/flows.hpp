// The flows that drain, with their rates: a table with one row, a slot, for each, in the order in which they came.
//
// Every flow remembers its bottleneck, the link that limits it. After a change only the piece that it disturbs is solved:
// the new flows, those whose bottleneck has lost a flow, and those that give way to them. Its links are saturated in the
// order of their levels, the lowest first; at the end every flow has a saturated link on which no flow is faster, which
// makes rates max-min fair. Where much changes at once all flows are solved by progressive filling, and bottlenecks,
// chains and heap are made anew when little changes again.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "archive.hpp"
#include "fredfw.h"

namespace fredfw {

constexpr double INF = std::numeric_limits<double>::infinity(), UNKNOWN = std::numeric_limits<double>::quiet_NaN();
// What a flow has as long as it is not drained, so that without a rate it never ends.
constexpr double LEAST = std::numeric_limits<double>::min();

// How links are shared. The last is a policy that somebody else applies; see Flows::assign.
enum Sharing : int32_t { MAX_MIN = 0, STRICT_LINKS = 1, CIRCUIT_PREEMPT = 2, FOREIGN = 3 };

// The links of some flows, in memory of somebody else: flow f has link[offset[f]] to link[offset[f + 1] - 1].
using Routes = fredfw_routes;

// Progressive filling of flows that are laid out one after the other; keeps its memory.
class Filling {
  public:
    // Begin with about so many flows and crossings, on links of which those that are used are numbered in order of use.
    void clear(int64_t links, bool weighted, int64_t flows, int64_t pairs);
    void add(double cap) { cap_.push_back(cap), length_.push_back(0); }
    void cross(int64_t link, double capacity, double coefficient);
    // Freeze, pass by pass, the flows of links that are the tightest constraint of every flow that crosses them.
    // Rates are in the order of the flows; returns the passes.
    int64_t solve();
    const std::vector<double> &rates() const { return rate_; }

  private:
    bool weighted_ = false;
    std::vector<int32_t> number_, used_;  // of links, from 1; those that have one
    std::vector<double> cap_, rate_, coefficient_, left_, floor_, level_, share_, weight_, taken_;
    std::vector<int32_t> length_, flow_, link_;
    std::vector<uint8_t> free_;
};

struct Work {  // of a solve
    int64_t flows = 0, passes = 0;
};

class Flows {
  public:
    // The ends of links and which nodes are switches matter to circuit pre-emption alone.
    Flows(int64_t links, const double *bandwidth, Sharing sharing, int64_t nodes, const int64_t *source,
          const int64_t *destination, const uint8_t *is_switch);

    int64_t slots() const { return (int64_t)bytes.size(); }
    Sharing sharing() const { return sharing_; }
    int64_t active = 0;
    int64_t changes = 0;  // how often flows have come or gone

    // Put a flow on its links; `scale` multiplies its load on them. Returns its slot.
    int64_t put(const Routes &routes, int64_t flow, double volume, double cap, int32_t priority, double scale,
                double now);
    // Make room for so many more flows and links that they cross, at once.
    void reserve(int64_t flows, int64_t pairs);
    // Take flows out, whose slots are in order.
    void drop(const std::vector<int32_t> &slots);
    // Have the slots of flows that are gone back, where they are many; slots change their numbers then.
    void compact();
    bool crowded() const { return slots() > 1024 && slots() > 4 * active; }

    // Rates are known until flows come or go, or links change. NaN where they are not.
    double first_done() const { return first_done_; }
    // Solve what has changed. Returns false where a foreign policy has to be asked; see assign.
    bool settle(double now, Work &work);
    // Give the flows that drain, in order of slots, the rates of a foreign policy.
    void assign(double now, const double *rates);
    // Find the flows that are drained at `now`, when the first is, in order of slots; they are still there.
    std::vector<int32_t> find_drained(double now);
    void set_capacity(const double *bandwidth);
    double left(int64_t slot, double now) const;
    template <class Function> void each_live(Function function) const {
        for (int64_t slot = live_from_; slot < slots(); slot++)
            if (draining[slot]) function((int32_t)slot);
    }
    void forget_rates();

    // Of each slot.
    std::vector<double> bytes, remaining, since, rate, finish, cap, scale;
    std::vector<int64_t> start;
    std::vector<int32_t> length, priority, member, batch;
    std::vector<int32_t> bottleneck, place, mark;  // of those that are linked
    std::vector<double> birth;                     // when it was put here; for a foreign policy alone, like
    std::vector<int64_t> name;                     // names, which are not used twice
    std::vector<uint8_t> draining;
    // Of each pair of a flow and a link.
    std::vector<int32_t> link, owner, next, previous;
    std::vector<double> coefficient;  // empty where all are 1
    // Of each link.
    std::vector<double> capacity;

    void io(Archive &archive);

  private:
    struct Piece;

    // Do something with all that has a value for each slot, but those that are linked.
    template <class Function> void each_column(Function function) {
        for (auto *one : {&bytes, &remaining, &since, &rate, &finish, &cap, &scale}) function(*one);
        for (auto *one : {&length, &priority, &member, &batch}) function(*one);
        function(start), function(draining);
        if (sharing_ == FOREIGN) function(birth), function(name);
    }

    int64_t links_;
    Sharing sharing_;
    std::vector<int32_t> ends_[2];  // of links
    std::vector<uint8_t> switch_;   // of nodes
    double first_done_;
    int64_t names_ = 0;
    int64_t linked_ = 0;      // slots below it are in the chains of their links, if they drain
    int64_t fresh_ = 0;       // slots from it on are new since rates were known
    int64_t gone_ = 0;        // flows that have left since
    int64_t live_from_ = 0;   // no slot below it drains
    bool related_ = false;    // whether bottlenecks, chains and heap are those of the flows that drain
    bool everything_ = true;  // whether all flows have to be solved
    // Of each link, once bottlenecks are known.
    std::vector<double> load_;  // bytes per second that linked flows carry, but for rounding
    std::vector<int32_t> head_, tail_, resting_, local_, loose_, heap_;
    std::vector<uint8_t> is_loose_;
    std::vector<int64_t> classes_;  // active flows of each
    Filling filling_;
    std::vector<double> scratch_;

    double weight(int64_t pair) const { return coefficient.empty() ? 1.0 : coefficient[pair]; }
    bool several_classes() const;
    bool few(int64_t changed) const { return 2 * changed <= active; }
    void advance_live();
    bool before(int32_t one, int32_t other) const;
    void settle_at(int64_t place, int32_t slot);
    void sink(int64_t place, int32_t slot);
    void sift(int64_t place, int32_t slot);
    void leave_heap(int32_t slot);
    void chain(int32_t slot);
    void leave_links(int32_t slot);
    void link_new();
    void relate();
    void set_rate(int64_t slot, double rate, double now);
    void settled();
    bool is_drained(int64_t slot, double now) const;
    std::vector<int32_t> live();  // slots
    std::vector<int32_t> classes_of(const std::vector<int32_t> &mine) const;
    int64_t solve_all();
    int64_t solve_strict();
    int64_t solve_circuits();
    void fill_in(int64_t slot, const double *capacity);
    Work repair(double now);
};

// Max-min fair rates of flows in compressed rows, which begin as their caps; returns the passes.
int64_t max_min(int64_t flows, int64_t links, const int64_t *offset, const int64_t *link, const double *coefficient,
                const double *capacity, double *rates);

}  // namespace fredfw
