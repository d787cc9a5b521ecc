// Schedules rank by rank: no rank waits for more than what it sends and receives itself.
#include <algorithm>
#include <cmath>

#include "fold.hpp"
#include "run.hpp"
#include "tasks.hpp"

namespace fredfw {
namespace {

const double LATE_TICKS = 4;  // by how many roundings of the clock a sum of times may be off
const size_t MOST_FOLDS = 256;  // so many groups of a schedule have their folds kept

using Nodes = std::vector<int32_t>;

// A phase that ranks have begun and not all are through with.
struct Stage {
    std::shared_ptr<const Parties> parties;
    std::vector<int64_t> step;       // repetition that each node is in, -1 before it is ready, all of them once it is through
    std::vector<int32_t> pending;    // sends that have not drained and receives that are not delivered, of this repetition
    std::vector<int32_t> sending;    // sends of it that have not drained, where a channel waits for them alone
    std::vector<int32_t> absent;     // nodes that the next start of each flow waits for
    std::vector<int64_t> started, delivered;         // how often each flow has
    std::set<std::pair<int32_t, int64_t>> ahead;     // flows and repetitions that came before what was sent before them
    int64_t unfinished = 0;                          // nodes that are not through

    void io(Archive &archive) { archive(step, pending, sending, absent, started, delivered, ahead, unfinished); }
};

class RankRun : public Run {
  public:
    RankRun(Given given, bool rendezvous)
        : Run(std::move(given)), rendezvous_(rendezvous), ranks_(schedule_.ranks), nodes_(ranks_ * groups_),
          stages_(schedule_.phases.size()), missing_(stages_.size()), cramped_(stages_.size()),
          starting_(stages_.size()), left_(nodes_, (int32_t)schedule_.phases.size()), ended_(nodes_, 0),
          open_(groups_, (int32_t)ranks_), entered_(nodes_, INF), marks_(nodes_, NEVER), last_(nodes_, NEVER) {
        make_channels(schedule_.choices(), false, rendezvous_);
    }

    void start() override {
        enter(count_up(nodes_), {});
        start_flows();  // at once, so that who starts a collective hears what the admission refuses
    }

    void enter(Nodes nodes, std::vector<int32_t> marks) override {
        if (lowered_->launch == 0) return launched(nodes, marks);
        marks.resize(nodes.size(), 0);
        nodes.insert(nodes.end(), marks.begin(), marks.end());
        network_.later(*this, What::LAUNCHED, lowered_->launch, ENDS, network_.keep_list(std::move(nodes)));
    }

    void happen(const Event &event) override {
        switch (event.what) {
        case What::LAUNCHED: {
            Nodes nodes = network_.take_list(event.detail);
            std::vector<int32_t> marks(nodes.begin() + (int64_t)nodes.size() / 2, nodes.end());
            nodes.resize(nodes.size() / 2);
            return launched(nodes, marks);
        }
        case What::CHOOSES: return choose((int32_t)event.detail);
        case What::STARTS: return start_flows();
        case What::REPORTS: return report();
        case What::FORESEEN: return end_foreseen(network_.take_list(event.detail));
        default: {
            Nodes flows = network_.take_list(event.detail);
            const int32_t index = flows.back();
            flows.pop_back();
            return deliver(index, flows);
        }
        }
    }

    void cancel() override {
        if (fold_) release_links();
        Run::cancel();
    }

    // --- flows that meet others, or nobody

    void drained(int64_t number, const std::vector<int32_t> &activities) override {
        const Carry &one = carries_[number];
        const int32_t index = (int32_t)one.phase;
        Stage &stage = *stages_[index];
        Nodes nodes;
        for (int32_t activity : activities)
            add_nodes(index, one.items[activity], stage.parties->sources, nodes);
        if (lets_go_early(index)) {
            Nodes free = count_down(stage.sending, nodes);
            std::sort(free.begin(), free.end());
            let_go(index, free);
        }
        owe_less(index, nodes);
    }

    void ended(int64_t number, const std::vector<int32_t> &activities) override {
        Carry &one = carries_[number];
        const int32_t index = (int32_t)one.phase;
        Stage &stage = *stages_[index];
        Nodes flows;
        for (int32_t activity : activities) {
            const int32_t flow = one.items[activity];
            if (one.repetitions[activity] > stage.delivered[flow]) stage.ahead.emplace(flow, one.repetitions[activity]);
            else flows.push_back(flow);
        }
        one.left -= (int64_t)activities.size();
        if (!one.left) drop_carry(number);
        deliver(index, flows);
    }

    void give_up() override;
    bool is_by_rank() const override { return true; }
    void io(Archive &archive) override {
        Run::io(archive);
        archive(rendezvous_, missing_, cramped_, starting_, start_order_, left_, ended_, open_, through_);
        archive(began_, entered_, marks_, last_, released_, unfinished_groups_);
        bool folded = fold_ != nullptr;
        archive(folded);
        if (archive.reads() && folded) fold_ = Fold::of(*lowered_, which_, network_.flows.capacity, rendezvous_);
        for (size_t index = 0; index < stages_.size(); index++) {
            archive(stages_[index]);
            if (archive.reads() && stages_[index])
                stages_[index]->parties = schedule_.parties((int64_t)index, rendezvous_);
        }
        if (archive.reads()) make_channels(schedule_.choices(), false, rendezvous_);
        for (Channel &channel : channels_) channel.io(archive);
    }
    bool foresees() const override { return fold_ != nullptr; }
    void moved(const std::function<void(const Routes &, int64_t, double)> &tell) override {
        if (!fold_) return;
        fold_->at(entered_, elapsed(), [&](int64_t index, const Standing &at) {
            for (size_t flow = 0; flow < at.carried.size(); flow++)
                tell(lowered_->phases[index].routes, lowered_flow((int64_t)flow, schedule_.phases[index].flows),
                     at.carried[flow]);
        });
    }

  protected:
    Cargo cargo(const Carry &carry) override {
        const Phase &phase = schedule_.phases[carry.phase];
        Cargo made;
        made.count = made.activities = (int64_t)carry.items.size();
        if (!which_.empty() || made.count < phase.flows * groups_) {
            made.members = carry.items;
            if (!which_.empty())
                for (int32_t &flow : made.members) flow = (int32_t)lowered_flow(flow, phase.flows);
        }
        if (rest_) {
            made.own = rest_, made.volumes = rest_->data(), made.in_order = true;
        } else if (phase.uniform()) {
            made.volumes = phase.volumes, made.period = phase.volume_count;
        } else {
            auto own = std::make_shared<std::vector<double>>(carry.items.size());
            for (size_t one = 0; one < own->size(); one++)
                (*own)[one] = schedule_.volume(carry.phase, carry.repetition, carry.items[one] % phase.flows);
            made.volumes = own->data(), made.own = own, made.in_order = true;
        }
        return made;
    }

  private:
    bool rendezvous_;
    int64_t ranks_, nodes_;
    std::vector<std::unique_ptr<Stage>> stages_;
    std::vector<std::vector<int32_t>> missing_;  // phases before each that a node is not done with; once one is done
    std::vector<std::vector<int32_t>> cramped_;  // phases that make room for each that a node is not done with
    std::vector<Nodes> starting_;                // flows that start at this moment, by phase
    std::vector<int32_t> start_order_;           // of those phases
    std::vector<int32_t> left_;                  // phases that each node is not done with
    std::vector<uint8_t> ended_;                 // nodes that are reported
    std::vector<int32_t> open_;                  // nodes of each group that are not
    Nodes through_;                              // nodes that are so at this moment, and not reported
    double began_ = NAN;
    std::vector<double> entered_;                // seconds since it began
    std::vector<int64_t> marks_, last_;          // of the entry of each node; of the last entry that each waits for
    std::shared_ptr<Fold> fold_;                 // as long as it says when nodes are through
    std::vector<uint8_t> released_;              // groups whose links it has let go of
    std::shared_ptr<std::vector<double>> rest_;  // what is left of flows that go on

    void launched(const Nodes &nodes, const std::vector<int32_t> &marks) {
        const bool first = std::isnan(began_);
        if (first) began_ = network_.now;
        for (size_t one = 0; one < nodes.size(); one++) {
            entered_[nodes[one]] = network_.now - began_;
            marks_[nodes[one]] = marks.empty() ? 0 : marks[one];
        }
        if (first ? foresee() : fold_ != nullptr) return look_ahead();
        if (schedule_.phases.empty()) report_later(nodes);
        for (size_t index = 0; index < schedule_.phases.size(); index++)
            if (!schedule_.phases[index].waits()) go_on((int32_t)index, unhindered((int32_t)index, nodes));
    }

    // --- ranks

    void add_nodes(int32_t index, int32_t flow, const Table &ends, Nodes &nodes) const {
        const int64_t flows = schedule_.phases[index].flows, group = flow / flows;
        for (int32_t rank : ends[flow % flows]) nodes.push_back((int32_t)(group * ranks_ + rank));
    }

    int64_t flow_of(int32_t index, int32_t node, int32_t flow) const {
        return node / ranks_ * schedule_.phases[index].flows + flow;
    }

    // Those of nodes, ready for a phase, that need not wait for its channel; the others are noted.
    Nodes unhindered(int32_t index, const Nodes &nodes) {
        const int32_t number = channel_of_[index];
        if (number < 0 || nodes.empty()) return nodes;
        choose_later(number, nodes);
        return channels_[number].ready(index, nodes, network_.now);
    }

    void choose(int32_t number) {
        for (const auto &[index, nodes] : channels_[number].choose()) go_on(index, nodes);
    }

    // Let nodes enter their next repetition of a phase, and what they can enter after that.
    void go_on(int32_t first, Nodes nodes) {
        std::vector<std::pair<int32_t, Nodes>> todo;  // not recursion, for a rank may have no part in any number of phases
        todo.emplace_back(first, std::move(nodes));
        while (!todo.empty()) {
            const int32_t index = todo.back().first;
            const Nodes entering = std::move(todo.back().second);
            todo.pop_back();
            if (entering.empty()) continue;
            const Nodes through = enter_phase(index, entering);
            if (through.empty()) continue;
            end(index, through);
            for (int32_t admitted : schedule_.admits[index]) admit(admitted, through);
            for (int32_t dependent : schedule_.goes_on[index]) {
                const bool alone = schedule_.phases[dependent].waits() == 1;
                todo.emplace_back(dependent, unhindered(dependent, alone ? through : count_down(missing_of(dependent), through)));
            }
        }
    }

    // Let nodes enter their next repetition; return those that are through with the phase.
    Nodes enter_phase(int32_t index, Nodes nodes) {
        Stage &mine = stage(index);
        const Parties &parties = *mine.parties;
        const int64_t repeat = schedule_.phases[index].repeat;
        const bool early = lets_go_early(index);
        Nodes through, starting;
        while (!nodes.empty()) {
            Nodes again, idle;
            for (int32_t node : nodes) {
                const int64_t rank = node % ranks_;
                const int64_t sends = parties.sends[rank].size();
                const Table::Row receives = parties.receives[rank];
                int64_t at = sends || receives.size() ? mine.step[node] + 1 : repeat;
                for (;;) {
                    if (at >= repeat) {
                        through.push_back(node);
                        break;
                    }
                    start_with(index, node, parties.starts[rank], starting);
                    // A sender may be ahead, and what it has sent is there already.
                    int32_t owed = (int32_t)sends;
                    for (int32_t one : receives) owed += mine.delivered[flow_of(index, node, one)] <= at;
                    mine.pending[node] = owed;
                    if (early) {
                        mine.sending[node] = (int32_t)sends;
                        if (!sends) idle.push_back(node);
                    }
                    if (owed) break;
                    if (early) {
                        again.push_back(node);
                        break;
                    }
                    at++;
                }
                mine.step[node] = at;
            }
            start_later(index, starting);
            starting.clear();
            nodes.clear();
            if (early) {
                let_go(index, idle);
                nodes = await_turn(index, again);
            }
        }
        return through;
    }

    void admit(int32_t index, const Nodes &through) {
        const Phase &phase = schedule_.phases[index];
        std::vector<int32_t> &cramped = cramped_[index];
        if (cramped.empty()) cramped.assign(nodes_, (int32_t)phase.room.size());
        Nodes starting;
        for (int32_t node : count_down(cramped, through))
            start_with(index, node, stage(index).parties->receives[node % ranks_], starting);
        start_later(index, starting);
    }

    // Note that flows need not wait for a node any more; those that wait for nobody start.
    void start_with(int32_t index, int32_t node, const Table::Row &flows, Nodes &starting) {
        Stage &mine = *stages_[index];
        for (int32_t one : flows) {
            const int64_t flow = flow_of(index, node, one);
            if (--mine.absent[flow]) continue;
            mine.absent[flow] = (int32_t)mine.parties->starters[one].size();
            starting.push_back((int32_t)flow);
        }
    }

    void let_go(int32_t index, const Nodes &nodes) {
        if (nodes.empty()) return;
        channels_[channel_of_[index]].release(index, nodes);
        choose_later(channel_of_[index], nodes);
    }

    // Let nodes, done with a repetition, wait for the channel again; return those with none to come.
    Nodes await_turn(int32_t index, const Nodes &nodes) {
        Nodes more, over;
        for (int32_t node : nodes)
            (stages_[index]->step[node] + 1 < schedule_.phases[index].repeat ? more : over).push_back(node);
        unhindered(index, more);
        return over;
    }

    Stage &stage(int32_t index) {
        if (stages_[index]) return *stages_[index];
        const Phase &phase = schedule_.phases[index];
        auto made = std::make_unique<Stage>();
        made->parties = schedule_.parties(index, rendezvous_);
        made->step.assign(nodes_, -1);
        made->pending.assign(nodes_, 0);
        if (lets_go_early(index)) made->sending.assign(nodes_, 0);
        made->absent.resize(phase.flows * groups_);
        for (int64_t flow = 0; flow < phase.flows; flow++) {
            int32_t count = (int32_t)made->parties->starters[flow].size();
            if (!phase.room.empty()) count += (int32_t)made->parties->destinations[flow].size();
            for (int64_t group = 0; group < groups_; group++) made->absent[group * phase.flows + flow] = count;
        }
        made->started.assign(phase.flows * groups_, 0), made->delivered = made->started;
        made->unfinished = nodes_;
        stages_[index] = std::move(made);
        return *stages_[index];
    }

    void end(int32_t index, const Nodes &nodes) {
        stages_[index]->unfinished -= (int64_t)nodes.size();
        if (!stages_[index]->unfinished) stages_[index].reset(), missing_[index] = {};
        if (channel_of_[index] >= 0 && schedule_.keeps) let_go(index, nodes);
        const Nodes through = count_down(left_, nodes);
        if (!through.empty()) report_later(through);
    }

    void report_later(const Nodes &nodes) {  // with all that are through at this moment
        if (through_.empty()) network_.later(*this, What::REPORTS, 0.0, ENDS, -1);
        through_.insert(through_.end(), nodes.begin(), nodes.end());
    }

    void report() {
        Nodes nodes;
        nodes.swap(through_);
        std::sort(nodes.begin(), nodes.end());
        tell(nodes, close(nodes));
    }

    // Note that nodes are through; return the groups that they end.
    std::vector<int32_t> close(const Nodes &nodes) {
        std::vector<int32_t> over;
        for (int32_t node : nodes) {
            ended_[node] = 1;
            if (!--open_[node / ranks_]) over.push_back((int32_t)(node / ranks_));
        }
        std::sort(over.begin(), over.end());
        unfinished_groups_ -= (int64_t)over.size();
        return over;
    }

    void tell(const Nodes &nodes, const std::vector<int32_t> &groups) {
        if (unfinished_groups_ == 0) is_over = true;
        if (is_of_task()) {
            for (int32_t node : nodes) {
                if (last_[node] != NEVER) continue;
                const int64_t first = node / ranks_ * ranks_;
                const auto found = last_awaited(schedule_, marks_.data() + first, rendezvous_);
                std::copy(found.begin(), found.end(), last_.begin() + first);
            }
            network_.tasks->run_through(*this, nodes, last_);
        }
        if (!groups.empty()) notify_ended(groups);
    }

    std::vector<int32_t> &missing_of(int32_t index) {
        if (missing_[index].empty()) missing_[index].assign(nodes_, (int32_t)schedule_.phases[index].waits());
        return missing_[index];
    }

    // --- what is foreseen

    int64_t unfinished_groups_ = groups_;

    // Let a recurrence say when groups end, if no flow meets another now; return whether it does.
    bool foresee() {
        if (!network_.open || !network_.local || network_.foreign) return false;
        std::shared_ptr<Fold> found;
        {
            const std::lock_guard<std::mutex> lock(lowered_->mutex);
            auto &folds = lowered_->folds[rendezvous_];
            const auto known = network_.links_as_built ? folds.find(which_) : folds.end();
            found = known != folds.end() ? known->second
                                         : Fold::of(*lowered_, which_, network_.flows.capacity, rendezvous_);
            if (network_.links_as_built && folds.size() < MOST_FOLDS) folds.emplace(which_, found);
        }
        if (!found || network_.used_by_batches(found->owners)) return false;
        std::vector<int64_t> &claims = network_.claims;
        if (claims.empty()) claims.assign(network_.flows.capacity.size(), -1);
        for (size_t link = 0; link < claims.size() && network_.claimed; link++)
            if (found->owners[link] >= 0 && claims[link] >= 0) return false;
        for (size_t link = 0; link < claims.size(); link++)
            if (found->owners[link] >= 0) claims[link] = number;
        network_.claimed++;
        fold_ = found;
        released_.assign(groups_, 0);
        return true;
    }

    // Note when nodes will be through of which that is known since some have entered now.
    void look_ahead() {
        std::vector<double> ends = fold_->ends(entered_);
        const double since = network_.now - began_;
        if (!is_of_task())  // then only groups matter
            for (int64_t group = 0; group < groups_; group++) {
                double *first = ends.data() + group * ranks_;
                std::fill(first, first + ranks_, *std::max_element(first, first + ranks_));
            }
        Nodes fresh;
        for (int64_t node = 0; node < nodes_; node++)
            if (last_[node] == NEVER && ends[node] < INF) fresh.push_back((int32_t)node);
        // They were not known before, so each waits for somebody who has entered now, and with a mark as high as any.
        for (size_t one = 0; one < fresh.size();) {
            const int64_t group = fresh[one] / ranks_;
            int64_t highest = -1;
            for (int64_t rank = 0; rank < ranks_; rank++)
                if (marks_[group * ranks_ + rank] < NEVER) highest = std::max(highest, marks_[group * ranks_ + rank]);
            for (; one < fresh.size() && fresh[one] / ranks_ == group; one++) last_[fresh[one]] = highest;
        }
        std::stable_sort(fresh.begin(), fresh.end(), [&](int32_t a, int32_t b) { return ends[a] < ends[b]; });
        for (size_t one = 0; one < fresh.size();) {
            Nodes nodes;
            const double end = ends[fresh[one]];
            for (; one < fresh.size() && ends[fresh[one]] == end; one++) nodes.push_back(fresh[one]);
            network_.later(*this, What::FORESEEN, end - since, ENDS, network_.keep_list(std::move(nodes)));
        }
    }

    void end_foreseen(const Nodes &nodes) {
        const std::vector<int32_t> groups = close(nodes);
        for (int32_t group : groups) released_[group] = 1;
        if (!groups.empty())
            for (size_t link = 0; link < fold_->owners.size(); link++)
                if (fold_->owners[link] >= 0 && released_[fold_->owners[link]] && network_.claims[link] == number)
                    network_.claims[link] = -1;
        if (unfinished_groups_ == 0) release_links();
        tell(nodes, groups);
    }

    void release_links() {
        moved([&](const Routes &routes, int64_t flow, double bytes) { network_.account(label, routes, flow, bytes); });
        for (int64_t &one : network_.claims)
            if (one == number) one = -1;
        network_.claimed--;
        fold_.reset();
    }

    double elapsed() const {  // what is due within rounding has happened
        if (unfinished_groups_ == 0) return INF;
        const double tick = std::nextafter(network_.now, INF) - network_.now;
        return network_.now - began_ + LATE_TICKS * tick;
    }

    void resume(int32_t index, const Standing &at);

    // --- flows

    // Start flows of a phase with all that start at this moment; all that they wait for are ready.
    void start_later(int32_t index, const Nodes &flows) {
        if (flows.empty()) return;
        if (start_order_.empty()) network_.later(*this, What::STARTS, 0.0, STARTS, -1);
        if (starting_[index].empty()) start_order_.push_back(index);
        starting_[index].insert(starting_[index].end(), flows.begin(), flows.end());
    }

    void start_flows() {
        std::vector<int32_t> order;
        order.swap(start_order_);
        for (int32_t index : order) {
            Nodes flows;
            flows.swap(starting_[index]);
            std::sort(flows.begin(), flows.end());
            std::map<int64_t, Nodes> parts;  // by the repetition whose bytes they have
            for (int32_t flow : flows)
                parts[schedule_.phases[index].uniform() ? 0 : stages_[index]->started[flow]].push_back(flow);
            for (const auto &part : parts) send(index, part.first, part.second);
        }
    }

    // Start flows: together those that start anyway, and those that somebody is asked about, but for streams.
    void send(int32_t index, int64_t repetition, const Nodes &flows) {
        const Phase &phase = schedule_.phases[index];
        Nodes open, asked, streams;
        for (int32_t flow : flows) {
            const bool is_alone = flow % phase.flows >= phase.unicasts && !network_.starts_streams;
            (is_open(index, flow) ? open : is_alone ? streams : asked).push_back(flow);
        }
        carry_off(index, repetition, open, false);
        carry_off(index, repetition, asked, true);
        for (int32_t flow : streams) carry_off(index, repetition, {flow}, true);
    }

    void carry_off(int32_t index, int64_t repetition, const Nodes &flows, bool asks) {
        if (flows.empty()) return;
        const int64_t number = carries_.take();
        Carry &one = carries_[number];
        one.phase = index, one.repetition = repetition;
        one.items = flows, one.left = (int64_t)flows.size();
        one.repetitions.reserve(flows.size());
        for (int32_t flow : flows) one.repetitions.push_back((int32_t)stages_[index]->started[flow]++);
        let_in(number, asks, true);
    }

    void deliver(int32_t index, Nodes flows) {
        deliver_one(index, flows);
        while (stages_[index] && !stages_[index]->ahead.empty()) {
            Stage &mine = *stages_[index];
            Nodes following;
            for (int32_t flow : flows)
                if (mine.ahead.erase({flow, mine.delivered[flow]})) following.push_back(flow);
            if (following.empty()) return;
            std::sort(following.begin(), following.end());
            flows = following;
            deliver_one(index, flows);
        }
    }

    void deliver_one(int32_t index, const Nodes &flows) {
        Stage &mine = *stages_[index];
        Nodes waiting, nodes;
        for (int32_t flow : flows) {
            const int64_t repetition = mine.delivered[flow]++;
            nodes.clear();
            add_nodes(index, flow, mine.parties->destinations, nodes);
            for (int32_t node : nodes)
                if (mine.step[node] == repetition) waiting.push_back(node);  // others count it when they get there
        }
        owe_less(index, waiting);
    }

    // Note for each of nodes the end of a send or receive of its repetition.
    void owe_less(int32_t index, const Nodes &nodes) {
        Nodes free = count_down(stages_[index]->pending, nodes);
        if (free.empty()) return;
        std::sort(free.begin(), free.end());
        if (lets_go_early(index)) free = await_turn(index, free);
        if (!free.empty()) go_on(index, free);
    }
};

void RankRun::give_up() {
    if (!fold_) return;
    std::vector<std::pair<int64_t, Standing>> standings;
    fold_->at(entered_, elapsed(), [&](int64_t index, const Standing &at) { standings.emplace_back(index, at); });
    release_links();
    for (const auto &one : standings) resume((int32_t)one.first, one.second);
    Nodes late;
    for (int64_t node = 0; node < nodes_; node++)
        if (!left_[node] && entered_[node] < INF && !ended_[node]) late.push_back((int32_t)node);
    if (!late.empty()) report_later(late);
}

void RankRun::resume(int32_t index, const Standing &at) {
    const Phase &phase = schedule_.phases[index];
    bool all = true;
    for (int64_t node = 0; node < nodes_; node++) {
        const bool through = at.step[node] == phase.repeat;
        all &= through;
        if (!through) continue;
        left_[node]--;
        for (int32_t dependent : schedule_.goes_on[index]) missing_of(dependent)[node]--;
    }
    if (all) return;
    Stage &mine = stage(index);
    mine.step = at.step, mine.started = at.started, mine.delivered = at.delivered;
    mine.unfinished = 0;
    for (int64_t node = 0; node < nodes_; node++) {
        mine.unfinished += at.step[node] != phase.repeat;
        if (at.step[node] == phase.repeat || at.step[node] < 0) continue;
        // Who waits for others to start a flow, and what a node owes in its repetition.
        for (int32_t one : mine.parties->starts[node % ranks_]) {
            const int64_t flow = flow_of(index, (int32_t)node, one);
            mine.absent[flow] -= at.step[node] >= at.started[flow];
        }
        for (int32_t one : mine.parties->sends[node % ranks_])
            mine.pending[node] += at.drained[flow_of(index, (int32_t)node, one)] <= at.step[node];
        for (int32_t one : mine.parties->receives[node % ranks_])
            mine.pending[node] += at.delivered[flow_of(index, (int32_t)node, one)] <= at.step[node];
    }
    Nodes running;
    auto rest = std::make_shared<std::vector<double>>();
    for (int64_t flow = 0; flow < (int64_t)at.started.size(); flow++)
        if (at.started[flow] > at.drained[flow]) {
            running.push_back((int32_t)flow);
            rest->push_back(at.left[flow]);
            mine.started[flow]--;
        }
    rest_ = rest;
    carry_off(index, 0, running, false);
    rest_.reset();
    std::vector<std::pair<int32_t, double>> arrivals = at.arrivals;
    std::stable_sort(arrivals.begin(), arrivals.end(), [](auto &a, auto &b) { return a.second < b.second; });
    for (size_t one = 0; one < arrivals.size();) {
        Nodes flows;
        const double delay = arrivals[one].second;
        for (; one < arrivals.size() && arrivals[one].second == delay; one++) flows.push_back(arrivals[one].first);
        flows.push_back(index);
        network_.later(*this, What::DELIVERS, delay, ENDS, network_.keep_list(std::move(flows)));
    }
}

}  // namespace

std::unique_ptr<Run> rank_run(Given given, bool rendezvous) {
    return std::make_unique<RankRun>(std::move(given), rendezvous);
}

}  // namespace fredfw
