// A task graph that runs: starts what is ready, rank by rank, and records what happened when.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "run.hpp"

namespace fredfw {

enum class Kind : int64_t { COMPUTE, COLLECTIVE, TRANSFER, LOAD, STORE, SEND, RECEIVE, WAIT };

// Who takes part in tasks. A slot is a place among the participants, which are distinct ranks in order.
struct Members {
    std::vector<int32_t> participants;
    int64_t groups = 0, size = 0;
    std::vector<int32_t> slots;  // of each member of each group
    Table groups_of;             // places among the members, of each slot

    int64_t count() const { return (int64_t)participants.size(); }
};

// What some groups of a task run: group g of what was lowered is group served[g] of the task.
struct Share {
    std::shared_ptr<Lowered> lowered;
    std::vector<int32_t> served, place;  // and the other way round, -1 for groups that others serve
};

class Tasks {
  public:
    const fredfw_graph graph;  // by the caller, who keeps its arrays
    std::vector<Members> members;
    std::vector<Share> shares;

    Tasks(Network &network, const fredfw_graph &graph) : graph(graph), network_(network) {}
    void start();
    void happen(const Event &event);
    void run_ended(Run &run, const std::vector<int32_t> &groups);
    void run_through(Run &run, const std::vector<int32_t> &nodes, const std::vector<int64_t> &marks);
    void streamed(int64_t stream, const std::vector<int32_t> &done);
    bool knows_stream(int64_t stream) const { return streams_.count(stream) > 0; }
    // Whether a group of a stream, by its place in the notice, waits to be served.
    bool awaits(int64_t stream, int64_t group) const {
        const Stream &one = streams_.at(stream);
        return group >= 0 && group < (int64_t)one.served.size() && !one.served[group];
    }

    // What has ended: ranks of one task that were in step, with when they began and the span that made them begin.
    struct Spans {
        std::vector<int64_t> task, trigger, offset, ranks;
        std::vector<double> start, end;
    } spans;
    // When the group that stands for a share began and ended.
    struct Compared {
        int64_t task, share;
        double began, ended;
    };
    std::vector<Compared> compared;
    std::vector<int64_t> ended;  // participants of each task
    int64_t done = 0;

  private:
    using Slots = std::vector<int32_t>;
    struct Message {
        double start;
        int64_t trigger;
    };
    struct Pending {  // what an event is about
        int32_t task;
        Slots slots;
        double start;
        int64_t trigger, run;
        int32_t mark;
    };
    struct Waiting {
        int64_t order;
        double since;
        int32_t task, slot;
        int64_t trigger;
    };
    struct Joined {  // a collective that ranks enter one by one
        std::vector<int64_t> marks;   // of members that enter at this moment, -1 for others
        std::vector<int64_t> run_of;  // groups, -1 before somebody has entered
    };

    Network &network_;
    std::vector<int64_t> before_offset_, before_;  // edges to each task
    std::vector<int64_t> missing_;                 // of tasks that begin as a whole
    std::unordered_map<int32_t, Slots> missing_of_;
    std::unordered_map<int64_t, Pending> pending_;
    int64_t numbers_ = 0;
    // Computations: each rank does one at a time, in the order in which they get ready.
    std::vector<uint8_t> busy_;
    std::vector<int64_t> freed_by_;
    Slots freed_;  // ranks whose computation ends now
    std::vector<std::deque<Waiting>> queues_;
    int64_t waited_ = 0;
    // Communication in groups.
    // Members that each group waits for, and groups that each slot is not through with.
    std::unordered_map<int32_t, Slots> absent_, running_;
    std::unordered_map<int32_t, Joined> joined_;
    std::vector<int32_t> joining_;
    std::vector<Message> entries_;
    struct Stream {
        Errand errand;
        std::vector<uint8_t> served;  // groups
        int64_t left;
    };
    std::unordered_map<int64_t, Stream> streams_;
    // Messages.
    std::unordered_map<int32_t, Message> arrivals_;
    std::set<int32_t> posted_;
    std::unordered_map<int32_t, int64_t> unreceived_;

    bool by_rank() const { return graph.way >= FREDFW_BY_RANK; }
    bool rendezvous() const { return graph.way == FREDFW_RENDEZVOUS; }
    Kind kind(int32_t task) const { return (Kind)graph.kind[task]; }
    const Members &of(int32_t task) const { return members[graph.members[task]]; }
    Slots everybody(int32_t task) const { return count_up(of(task).count()); }
    Slots after(int64_t edge, const Slots &slots) const;
    Slots &missing_of(int32_t task);
    int64_t later(What what, double delay, int32_t priority, Pending pending);
    void ready(int32_t task, const Slots &slots, int64_t trigger);
    void begin(int32_t task, int64_t trigger);
    void end(int32_t task, const Slots &slots, double start, int64_t trigger, const Slots &ranks);
    void release(int32_t task, const Slots &slots, int64_t span);
    void compute(int32_t task, const Slots &slots, int64_t trigger);
    void compute_now(int32_t task, const Slots &slots, int64_t trigger);
    void compute_next(const Slots &ranks);
    void computed(const Pending &what);
    void gather(int32_t task, const Slots &slots, int64_t trigger);
    void begin_groups(int32_t task, std::vector<int32_t> groups, int64_t trigger);
    void leave(int32_t task, Slots slots, double start, int64_t trigger);
    void end_groups(const Errand &errand, const std::vector<int32_t> &over);
    void enter_later(int32_t task, const Slots &slots, int64_t trigger);
    void enter();
    void send(int32_t task, int64_t trigger);
    void receive(int32_t task, int64_t trigger);
    void arrived(int32_t task, const Message &message);
    void end_message(int32_t task, const Message &message);
    void compare(const Run &run, const std::vector<int32_t> &groups);
    Run &new_run(int32_t task, int64_t share, const std::vector<int32_t> &groups, int64_t trigger);
};

}  // namespace fredfw
