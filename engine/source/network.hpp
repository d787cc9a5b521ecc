// A network that carries batches of flows in simulated time: what drains, what is delivered, which links are closed.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "calendar.hpp"
#include "fredfw.h"
#include "flows.hpp"
#include "pool.hpp"

namespace fredfw {

class Run;
class Tasks;

// What is to be done outside; see the constants of the same names in fredfw.h.
struct Notice {
    int64_t what = 0, whose = 0, detail = 0;
    std::vector<int64_t> list, others;
    void io(Archive &archive) { archive(what, whose, detail, list, others); }
};

// What a batch is made of; arrays belong to somebody else and stay as long as the batch.
struct Cargo {
    Routes routes{};
    std::vector<int32_t> members;      // which flows of the arrays; all where it is empty
    int64_t count = 0;                 // of flows
    const double *volumes = nullptr;   // bytes of a repetition
    std::shared_ptr<const std::vector<double>> own;  // those, where nobody else keeps them
    bool in_order = false;             // whether volumes are those of the members, one after the other
    int64_t period = 0;                // after so many flows volumes come again; 0 for never
    const double *caps = nullptr;      // bytes per second; null where there are none
    int64_t block = 1;                 // so many flows after each other are an activity, which ends on its own
    const int64_t *activity = nullptr; // of each flow, where those are no blocks
    int64_t activities = 1;
    int64_t repeat = 1;
    double first_setup = 0.0, setup = 0.0;  // seconds before the first repetition, and before each other
    int32_t priority = 0, label = 0;
    bool takes_turns = false;

    template <class Function> void each_link(Function function) const {
        for (int64_t flow = 0; flow < count; flow++)
            for (int64_t route = place(flow), pair = routes.offset[route]; pair < routes.offset[route + 1]; pair++)
                function(routes.link[pair], flow);
    }

    int64_t place(int64_t flow) const { return members.empty() ? flow : members[flow]; }
    double volume(int64_t flow) const {
        const int64_t one = in_order ? flow : place(flow);
        return volumes[period ? one % period : one];
    }
    double cap(int64_t flow) const { return caps ? caps[place(flow)] : INF; }
    int64_t activity_of(int64_t flow) const {
        return activity ? activity[place(flow)] : block == 1 ? flow : flow / block;
    }
    void io(Archive &archive);
};

// Repetitions that are on the links as one volume, once that matters; of each activity.
struct Laps {
    std::vector<int64_t> now, later;  // on the links, and after those
    std::vector<double> since;        // when those on the links began
    std::vector<uint8_t> asked;       // whether somebody is asked where those after go
    void io(Archive &archive) { archive(now, later, since, asked); }
};

struct OwnRoutes {
    std::vector<int64_t> offset, link;
    std::vector<double> latency, coefficient;
    Routes view{};
    void add(const Routes &from, int64_t flow);
    void bind();
    void io(Archive &archive);
};

struct Batch {
    int64_t serial = 0;  // of its events
    bool there = false;
    int64_t before = -1, after = -1;  // batches in the order in which they were let in
    int64_t ticket = 0;               // of what was asked for from outside; 0 for a run's
    int64_t run = -1;                 // otherwise
    int64_t carry = -1;
    int64_t token = 0;                // names it at an admission that wants to hear when it is over; 0 for none
    Cargo cargo;
    double weight = 1.0;
    bool hears_drain = false;
    double entered = 0.0, since = 0.0;  // let in, put on the links; NaN before
    int64_t unfinished = 0, draining = 0;
    std::vector<int32_t> pending;  // flows of each activity that drain, -1 once it has ended
    std::vector<double> end;       // when the last delivery of each is, of what is drained
    // What is on the links where that differs from the cargo: after closed links, changes or repetitions that split.
    std::vector<double> laid, delay, drained_at;
    std::shared_ptr<OwnRoutes> detour;
    std::unique_ptr<Laps> laps;
    // Whom it met; see Meetings.
    bool is_listed = false;
    int64_t guests = 0, met_by = 0;  // the last that was asked about, by its serial
    double latest = 0.0;
    std::vector<int64_t> partners;

    const Routes &routes() const { return detour ? detour->view : cargo.routes; }
    int64_t route(int64_t flow) const { return detour ? flow : cargo.place(flow); }
    double volume_laid(int64_t flow) const {
        return laid.empty() ? cargo.volume(flow) * (double)cargo.repeat : laid[flow];
    }
    double delay_of(int64_t flow) const;
    void io(Archive &archive);
};

struct Statistics {
    int64_t events = 0, batches = 0, flows = 0, solves = 0, solved = 0, passes = 0, most_passes = 0, met = 0;
    void io(Archive &archive) { archive(events, batches, flows, solves, solved, passes, most_passes, met); }
};

// Counts where batches meet out of step while repetitions are simulated as one. Repetitions of a phase that is alone on its
// links take as long one by one as all at once, and so do phases that start together, repeat as often and end together.
struct Meetings {
    struct Pair {
        bool first_left = false;
        double low = 0.0, high = 0.0;
        void io(Archive &archive) { archive(first_left, low, high); }
    };
    int64_t compressed = 0, here = 0, turning = 0;  // batches: with several repetitions, all, and those that take turns
    std::vector<std::vector<int32_t>> users;  // batches on each link, but for those that came since somebody asked
    std::unordered_map<int64_t, Pair> pairs;
    int64_t numbers = 0;
    void io(Archive &archive) { archive(compressed, here, turning, users, pairs, numbers); }
};

class Network {
  public:
    explicit Network(const fredfw_setting &setting);
    ~Network();

    double now = 0.0;
    Calendar calendar;
    Flows flows;
    Statistics statistics;
    std::deque<Notice> notices;
    std::vector<double> weights;  // by label
    bool open, local, foreign, starts_streams, closed = false;
    double held_until;  // of rates of a policy with state

    // --- time

    // Go on, at most to `until`, until there is something to do outside; returns whether there is. At most `most` events
    // happen in between.
    enum class Step { OVER, NOTICE, RATES, MORE };
    Step step(double until, int64_t most);
    // When something happens next; NaN where rates have to be given first.
    double next();
    // Have the rates found, but those that have to be given; returns whether they are known.
    bool settle();
    void pass(double until) { now = until; }
    void withdraw(int64_t timer) {
        if (timer > 0 && timer <= calendar.sequence) calendar.withdraw(timer);
    }
    bool is_new() const { return !serials_ && !calendar.sequence && now == 0 && !tasks; }
    void begin_step() { stepping_ = false; }
    void later(const Run &run, What what, double delay, int32_t priority, int64_t detail);

    // --- flows

    int64_t admit(Cargo cargo, int64_t ticket, int64_t run, int64_t carry, int64_t token, bool hears_drain);
    void cancel(int64_t ticket, int64_t run);  // one of them; see Batch
    bool idle();
    // Returns batches of which some flow has no rate, once for each.
    void stalled(std::vector<int64_t> &found);
    // The bytes that have crossed each link until now, by label.
    using LinkBytes = std::vector<std::vector<double>>;
    LinkBytes link_bytes();
    void account(int32_t label, const Routes &routes, int64_t flow, double bytes, LinkBytes &moved) const;
    void account(int32_t label, const Routes &routes, int64_t flow, double bytes) {
        account(label, routes, flow, bytes, moved_);
    }

    // --- links

    void set_bandwidths(const double *values);
    bool crosses_closed(const Routes &routes, int64_t flow) const;
    bool crosses_closed(const Batch &batch) const;
    // Have flows of a batch that cross closed links take the ways of `routes`, of all its flows, where those are open.
    void reroute(int64_t batch, const Routes &routes, int64_t &moved, bool &stranded);
    bool rerouted = false;        // whether a router has a say in where repetitions go that have not begun
    bool links_as_built = true;   // whether no bandwidth has changed
    void go_on(int64_t batch, const std::vector<int32_t> &activities, const Routes *routes = nullptr);
    int64_t compressed() const { return meetings_.compressed; }
    int64_t first_batch() const { return oldest_; }
    const Batch &batch(int64_t number) const { return batches_[number]; }
    bool knows_batch(int64_t number) const {
        return number >= 0 && number < batches_.size() && batches_[number].there;
    }
    std::map<int32_t, std::pair<double, int64_t>> held;  // when flows first began without a way, and how often; by label

    std::unique_ptr<Tasks> tasks;  // a task graph that runs, if there is one

    // --- runs of schedules, see run.hpp

    int64_t add(std::unique_ptr<Run> run);  // returns its name
    Run *find_run(int64_t name) const;
    Run &run_at(int64_t number) const { return *runs_[number]; }
    void forget_if_over(int64_t number);
    // Links that a run has foreseen to have to itself, -1 for none.
    std::vector<int64_t> claims;
    int64_t claimed = 0;  // runs that have some
    void yield_links();  // all
    bool used_by_batches(const std::vector<int32_t> &group_of_link) const;

    Notice &notify(int64_t what, int64_t whose, int64_t detail = 0, const std::vector<int32_t> &list = {}) {
        notices.push_back({what, whose, detail, {list.begin(), list.end()}, {}});
        return notices.back();
    }
    void unsay(std::initializer_list<int64_t> kinds, int64_t whose);
    std::vector<int32_t> take_list(int64_t number);
    int64_t keep_list(std::vector<int32_t> list);

    void io(Archive &archive);

  private:
    Pool<Batch> batches_;
    int64_t oldest_ = -1, newest_ = -1, serials_ = 0;
    Pool<std::vector<int32_t>> lists_;
    std::vector<uint8_t> is_closed_;
    LinkBytes moved_;
    Pool<std::unique_ptr<Run>> runs_;
    std::unordered_map<int64_t, int64_t> run_of_;  // number by name
    bool stepping_ = false;
    Meetings meetings_;
    std::shared_ptr<Arena> arena_;  // what it is made of, where it was read

    bool is_void(const Event &event) const;
    void drop_void();
    void happen(const Event &event);
    void take_drained();
    void begin(int64_t number);
    void lay(int64_t number, int64_t flow, double volume, std::vector<int32_t> &free);
    void hold(int32_t label) { held.emplace(label, std::make_pair(now, (int64_t)0)).first->second.second++; }
    void drained(int64_t number, const std::vector<int32_t> &flows);
    void yield_links(const Routes &routes, int64_t flow);
    void deliver(int64_t number, std::vector<int32_t> &activities);
    void complete(int64_t number, const std::vector<int32_t> &activities);
    void close(int64_t number);
    void drain_waiting(int64_t number);
    std::vector<int32_t> slots_of(int64_t number) const;
    // Repetitions that are simulated as one, see laps.cpp.
    void split(int64_t number, const std::vector<int32_t> &slots);
    bool next_laps(int64_t number, std::vector<int32_t> &activities);
    struct Position {
        std::vector<double> sent;         // of flows: bytes until now, of what was put on the links
        std::vector<uint8_t> mine;        // flows of activities of which several repetitions are on the links
        std::vector<double> left, delay;  // of those: bytes of the current one, and seconds after it
        std::vector<int64_t> done;        // repetitions of each activity that are over
    };
    Position position(const Batch &batch, const std::vector<int32_t> &slots) const;
    static void make_laid(Batch &batch);
    void lay_again(int64_t number, const std::vector<int32_t> &which);
    std::vector<std::vector<int32_t>> slots_by_batch() const;
    void enter(int64_t number);
    void leave(int64_t number);
    void list_user(int64_t number);
    void unlist_user(int64_t number);
    bool meets_inside(const Batch &batch, double slack) const;
};

}  // namespace fredfw
