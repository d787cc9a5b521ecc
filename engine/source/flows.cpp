#include "flows.hpp"

#include <algorithm>

namespace fredfw {
namespace {

const double SAME = 1e-12;  // fair shares that differ by less, relative, are the same
const double NOTHING = 1e-12;  // below this share of a link's capacity, what is left of it is rounding
// A link that carries this share of its capacity is saturated, and a flow this close to the fastest is one of them.
const double NEARLY = 1 - 1e-10;
// A lower bound is this share of what it would be without rounding, and a link carries too much above its inverse.
const double CAUTION = 1 - 1e-9, CAREFUL = 1 - 1e-11;
// A flow is drained when what remains is below this share of its own volume, or when it ends later by a few roundings of
// the clock, which may be more for a flow that takes no time beside it.
const double DRAINED = 1e-11, TICKS = 1e-15;
const double AHEAD = 1.25;  // links whose levels are higher by this factor are not sorted yet

}  // namespace

void Flows::io(Archive &archive) {
    archive(active, changes, bytes, remaining, since, rate, finish, cap, scale, birth, start, name);
    archive(length, bottleneck, place, mark, priority, member, batch, draining);
    archive(link, owner, next, previous, coefficient, capacity);
    archive(first_done_, names_, linked_, fresh_, gone_, live_from_, related_, everything_);
    archive(load_, head_, tail_, resting_, local_, loose_, heap_, is_loose_, classes_);
}

// --- progressive filling

void Filling::clear(int64_t links, bool weighted, int64_t flows, int64_t pairs) {
    for (int32_t one : used_) number_[one] = 0;
    if ((int64_t)number_.size() < links) number_.resize(links, 0);
    used_.clear(), left_.clear(), floor_.clear();
    cap_.clear(), length_.clear(), link_.clear(), coefficient_.clear();
    cap_.reserve(flows), length_.reserve(flows), link_.reserve(pairs);
    weighted_ = weighted;
}

void Filling::cross(int64_t link, double capacity, double coefficient) {
    int32_t &number = number_[link];
    if (!number) {
        left_.push_back(capacity), floor_.push_back(capacity * NOTHING);
        used_.push_back((int32_t)link);
        number = (int32_t)used_.size();
    }
    link_.push_back(number - 1);
    if (weighted_) coefficient_.push_back(coefficient);
    length_.back()++;
}

int64_t Filling::solve() {
    const size_t links = used_.size(), flows = cap_.size();
    int64_t passes = 0, count = 0;
    weight_.assign(links, 0.0), taken_.assign(links, 0.0), share_.resize(links);
    free_.resize(links), flow_.resize(flows), level_.resize(flows);
    for (size_t pair = 0; pair < link_.size(); pair++) weight_[link_[pair]] += weighted_ ? coefficient_[pair] : 1.0;
    rate_ = cap_;
    for (size_t flow = 0; flow < flows; flow++)
        if (length_[flow]) flow_[count++] = (int32_t)flow;
    while (count > 0) {
        passes++;
        for (size_t one = 0; one < links; one++) {
            share_[one] = weight_[one] > 0 ? left_[one] / weight_[one] : INF;
            free_[one] = 0;
            if (weighted_) weight_[one] = 0.0;
        }
        int64_t start = 0;
        for (int64_t place = 0; place < count; place++) {
            const int64_t flow = flow_[place], end = start + length_[flow];
            double lowest = cap_[flow];
            for (int64_t pair = start; pair < end; pair++) lowest = std::min(share_[link_[pair]], lowest);
            for (int64_t pair = start; pair < end; pair++) free_[link_[pair]] |= lowest < share_[link_[pair]] * (1 - SAME);
            level_[place] = lowest;
            start = end;
        }
        int64_t kept = 0, free_pair = 0;
        start = 0;
        for (int64_t place = 0; place < count; place++) {
            const int64_t flow = flow_[place], end = start + length_[flow];
            const double level = level_[place];
            bool waits = level < cap_[flow];
            for (int64_t pair = start; pair < end && waits; pair++) waits = free_[link_[pair]];
            if (waits) {
                flow_[kept++] = flow;
                for (int64_t pair = start; pair < end; pair++, free_pair++) {
                    link_[free_pair] = link_[pair];
                    if (weighted_) {  // added up anew, for the sum is to be the same to the last bit
                        coefficient_[free_pair] = coefficient_[pair];
                        weight_[link_[pair]] += coefficient_[pair];
                    }
                }
            } else {
                rate_[flow] = level;
                for (int64_t pair = start; pair < end; pair++) {
                    taken_[link_[pair]] += weighted_ ? level * coefficient_[pair] : level;
                    if (!weighted_) weight_[link_[pair]] -= 1.0;
                }
            }
            start = end;
        }
        count = kept;
        for (size_t one = 0; one < links; one++) {
            left_[one] -= taken_[one];
            taken_[one] = 0.0;
            if (left_[one] < floor_[one]) left_[one] = 0.0;
        }
    }
    return passes;
}

int64_t max_min(int64_t flows, int64_t links, const int64_t *offset, const int64_t *link, const double *coefficient,
                const double *capacity, double *rates) {
    Filling filling;
    filling.clear(links, coefficient != nullptr, flows, offset[flows]);
    for (int64_t flow = 0; flow < flows; flow++) {
        filling.add(rates[flow]);
        for (int64_t pair = offset[flow]; pair < offset[flow + 1]; pair++)
            filling.cross(link[pair], capacity[link[pair]], coefficient ? coefficient[pair] : 1.0);
    }
    const int64_t passes = filling.solve();
    std::copy(filling.rates().begin(), filling.rates().end(), rates);
    return passes;
}

// --- flows that come and go

Flows::Flows(int64_t links, const double *bandwidth, Sharing sharing, int64_t nodes, const int64_t *source,
             const int64_t *destination, const uint8_t *is_switch)
    : capacity(bandwidth, bandwidth + links), links_(links), sharing_(sharing), first_done_(UNKNOWN) {
    if (sharing == CIRCUIT_PREEMPT) {
        ends_[0].assign(source, source + links), ends_[1].assign(destination, destination + links);
        switch_.assign(is_switch, is_switch + nodes);
    }
}

void Flows::reserve(int64_t flows, int64_t pairs) {
    const auto more = [](auto &values, int64_t count) {
        const size_t needed = values.size() + (size_t)count;
        if (values.capacity() < needed) values.reserve(std::max(needed, 2 * values.capacity()));
    };
    each_column([&](auto &values) { more(values, flows); });
    more(link, pairs);
}

int64_t Flows::put(const Routes &routes, int64_t flow, double volume, double limit, int32_t rank, double factor,
                   double now) {
    if (!active) {  // nobody needs what is there
        each_column([](auto &values) { values.clear(); });
        for (auto *one : {&bottleneck, &place, &mark, &link}) one->clear();
        coefficient.clear();
        linked_ = fresh_ = live_from_ = 0;
    }
    const int64_t slot = slots(), first = (int64_t)link.size(), from = routes.offset[flow], to = routes.offset[flow + 1];
    bytes.push_back(volume), remaining.push_back(volume), since.push_back(now), rate.push_back(0.0);
    finish.push_back(INF), cap.push_back(limit), scale.push_back(factor), start.push_back(first);
    if (sharing_ == FOREIGN) birth.push_back(now), name.push_back(names_++);
    length.push_back((int32_t)(to - from)), priority.push_back(rank), member.push_back(0), batch.push_back(-1), draining.push_back(1);
    const bool weighted = routes.coefficient != nullptr || factor != 1.0;
    if (weighted && coefficient.empty()) coefficient.assign(first, 1.0);
    const bool store = weighted || !coefficient.empty();
    for (int64_t pair = from; pair < to; pair++) {
        link.push_back((int32_t)routes.link[pair]);
        if (store) coefficient.push_back((routes.coefficient ? routes.coefficient[pair] : 1.0) * factor);
    }
    if ((int64_t)classes_.size() <= std::min(rank, 62)) classes_.resize(std::min(rank, 62) + 1, 0);
    classes_[std::min(rank, 62)]++;
    active++, changes++;
    first_done_ = UNKNOWN;
    return slot;
}

bool Flows::several_classes() const {
    if (sharing_ == MAX_MIN || sharing_ == FOREIGN) return false;
    int present = 0;
    for (int64_t count : classes_) present += count > 0;
    return present > 1 || (classes_.size() > 62 && classes_[62] > 0);
}

void Flows::advance_live() {
    while (live_from_ < slots() && !draining[live_from_]) live_from_++;
}

void Flows::compact() {
    int64_t to = 0, pair_to = 0, linked = 0, fresh = 0;
    const bool weighted = !coefficient.empty();
    const int64_t count = slots();
    for (int64_t slot = 0; slot < count; slot++) {
        if (slot == linked_) linked = to;
        if (slot == fresh_) fresh = to;
        if (!draining[slot]) continue;
        const int64_t from = start[slot];
        each_column([&](auto &values) { values[to] = values[slot]; });
        if (slot < (int64_t)bottleneck.size()) bottleneck[to] = bottleneck[slot];
        start[to] = pair_to;
        for (int32_t one = 0; one < length[to]; one++, pair_to++) {
            link[pair_to] = link[from + one];
            if (weighted) coefficient[pair_to] = coefficient[from + one];
        }
        to++;
    }
    linked_ = linked_ >= count ? to : linked, fresh_ = fresh_ >= count ? to : fresh, live_from_ = 0;
    each_column([&](auto &values) { values.resize(to); });
    for (auto *one : {&bottleneck, &place, &mark}) one->resize(linked_);
    link.resize(pair_to);
    if (weighted) coefficient.resize(pair_to);
    if (!related_) return;
    std::fill(head_.begin(), head_.end(), -1), std::fill(tail_.begin(), tail_.end(), -1);
    heap_.clear();
    for (int64_t slot = 0; slot < linked_; slot++) chain((int32_t)slot);
}

void Flows::drop(const std::vector<int32_t> &gone) {
    if (gone.empty()) return;
    if (gone[0] < fresh_) {
        gone_ += (int64_t)gone.size();
        if (!related_ && !everything_) {  // bottlenecks are known by the rates, as long as all flows are there
            if (few(gone_)) relate();
            else everything_ = true;
        }
    }
    for (int32_t slot : gone) {
        draining[slot] = 0;
        classes_[std::min(priority[slot], 62)]--;
        if (related_ && slot < linked_) {
            if (place[slot] >= 0) leave_heap(slot);
            leave_links(slot);
        }
    }
    active -= (int64_t)gone.size(), changes++;
    first_done_ = UNKNOWN;
}

double Flows::left(int64_t slot, double now) const {
    return std::max(remaining[slot] - rate[slot] * (now - since[slot]), 0.0);
}

void Flows::forget_rates() { everything_ = true, first_done_ = UNKNOWN; }

void Flows::set_capacity(const double *bandwidth) {
    capacity.assign(bandwidth, bandwidth + links_);
    forget_rates();
}

// --- the heap: the flow that is drained first is at the top, of two at once the one that came first

bool Flows::before(int32_t one, int32_t other) const {
    return finish[one] < finish[other] || (finish[one] == finish[other] && one < other);
}

void Flows::settle_at(int64_t where, int32_t slot) { heap_[where] = slot, place[slot] = (int32_t)where; }

void Flows::sink(int64_t where, int32_t slot) {
    const int64_t count = (int64_t)heap_.size();
    for (;;) {
        int64_t child = 2 * where + 1;
        if (child >= count) break;
        if (child + 1 < count && before(heap_[child + 1], heap_[child])) child++;
        if (!before(heap_[child], slot)) break;
        settle_at(where, heap_[child]);
        where = child;
    }
    settle_at(where, slot);
}

void Flows::sift(int64_t where, int32_t slot) {
    while (where > 0) {
        const int64_t parent = (where - 1) / 2;
        if (!before(slot, heap_[parent])) break;
        settle_at(where, heap_[parent]);
        where = parent;
    }
    sink(where, slot);
}

void Flows::leave_heap(int32_t slot) {
    const int64_t where = place[slot];
    place[slot] = -1;
    const int32_t last = heap_.back();
    heap_.pop_back();
    if (last != slot) sift(where, last);
}

// --- the flows of each link, in the order in which they came

void Flows::chain(int32_t slot) {
    if (owner.size() < link.size()) {  // which are needed only where few flows come or go
        const size_t room = std::max(link.size(), 2 * owner.size());
        for (auto *one : {&owner, &next, &previous}) one->resize(room);
    }
    for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++) {
        const int32_t one = link[pair], last = tail_[one];
        owner[pair] = slot, next[pair] = -1, previous[pair] = last;
        (last < 0 ? head_[one] : next[last]) = (int32_t)pair;
        tail_[one] = (int32_t)pair;
    }
    heap_.push_back(slot);
    sift((int64_t)heap_.size() - 1, slot);
}

void Flows::leave_links(int32_t slot) {
    if (bottleneck[slot] >= 0) resting_[bottleneck[slot]]--;
    for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++) {
        const int32_t one = link[pair], last = previous[pair], then = next[pair];
        load_[one] -= rate[slot] * weight(pair);
        (last < 0 ? head_[one] : next[last]) = then;
        (then < 0 ? tail_[one] : previous[then]) = last;
        if (!is_loose_[one]) is_loose_[one] = 1, loose_.push_back(one);
    }
}

void Flows::link_new() {
    for (auto *one : {&bottleneck, &place, &mark}) one->resize(slots(), -1);
    for (int64_t slot = linked_; slot < slots(); slot++)
        if (draining[slot]) {
            for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++)
                load_[link[pair]] += rate[slot] * weight(pair);
            chain((int32_t)slot);
        }
    linked_ = slots();
}

void Flows::relate() {
    for (auto *one : {&head_, &tail_, &local_}) one->assign(links_, -1);
    load_.assign(links_, 0.0), resting_.assign(links_, 0), is_loose_.assign(links_, 0);
    for (auto *one : {&bottleneck, &place, &mark}) one->clear();
    heap_.clear();
    linked_ = 0;
    link_new();
    scratch_.assign(links_, 0.0);
    std::vector<double> &fastest = scratch_;
    each_live([&](int32_t slot) {
        for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++)
            fastest[link[pair]] = std::max(fastest[link[pair]], rate[slot]);
    });
    each_live([&](int32_t slot) {
        if (rate[slot] >= cap[slot]) return;
        for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++) {
            const int32_t one = link[pair];
            if (load_[one] >= capacity[one] * NEARLY && rate[slot] >= fastest[one] * NEARLY) {
                bottleneck[slot] = one;
                resting_[one]++;
                break;
            }
        }
    });
    related_ = true;
}

// --- rates

void Flows::set_rate(int64_t slot, double value, double now) {
    const double old = rate[slot];
    double rest = remaining[slot];
    if (old > 0 && since[slot] < now) {
        rest -= old * (now - since[slot]);
        if (!(rest > LEAST)) rest = LEAST;
    }
    remaining[slot] = rest;
    since[slot] = now;
    rate[slot] = value;
    finish[slot] = value > 0 ? now + rest / value : INF;
}

void Flows::settled() {
    for (int32_t one : loose_) is_loose_[one] = 0;
    loose_.clear();
    everything_ = false, gone_ = 0, fresh_ = slots();
}

void Flows::assign(double now, const double *rates) {
    double first = INF;
    advance_live();
    each_live([&](int32_t slot) {
        const double value = *rates++;
        if (value != rate[slot]) set_rate(slot, value, now);
        first = std::min(first, finish[slot]);
    });
    settled();
    related_ = false;
    first_done_ = first;
    // Nothing is known of bottlenecks where classes or somebody else have a say.
    if (sharing_ == FOREIGN || several_classes()) everything_ = true;
}

bool Flows::settle(double now, Work &work) {
    work = {};
    if (!active) {
        settled();
        related_ = false;
        first_done_ = INF;
        return true;
    }
    if (sharing_ == FOREIGN) return false;
    const bool classes = several_classes();
    if (!classes && !everything_ && few(slots() - fresh_ + gone_)) {
        if (!related_) relate();
        work = repair(now);
        settled();
        first_done_ = heap_.empty() ? INF : finish[heap_[0]];
        return true;
    }
    work.flows = active;
    work.passes = !classes ? solve_all() : sharing_ == STRICT_LINKS ? solve_strict() : solve_circuits();
    assign(now, classes ? scratch_.data() : filling_.rates().data());
    return true;
}

void Flows::fill_in(int64_t slot, const double *room) {
    filling_.add(cap[slot]);
    for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++)
        filling_.cross(link[pair], room[link[pair]], weight(pair));
}

int64_t Flows::solve_all() {
    advance_live();
    filling_.clear(links_, !coefficient.empty(), active, (int64_t)link.size());
    each_live([&](int32_t slot) { fill_in(slot, capacity.data()); });
    return filling_.solve();
}

std::vector<int32_t> Flows::live() {
    advance_live();
    std::vector<int32_t> mine;
    mine.reserve(active);
    each_live([&](int32_t slot) { mine.push_back(slot); });
    return mine;
}

std::vector<int32_t> Flows::classes_of(const std::vector<int32_t> &mine) const {
    std::vector<int32_t> present;
    for (int32_t slot : mine) present.push_back(priority[slot]);
    std::sort(present.begin(), present.end());
    present.erase(std::unique(present.begin(), present.end()), present.end());
    return present;
}

// Each class shares the bandwidth that higher classes leave on every link.
int64_t Flows::solve_strict() {
    const std::vector<int32_t> mine = live();
    std::vector<double> left = capacity;
    scratch_.assign(mine.size(), 0.0);
    int64_t passes = 0;
    for (int32_t rank : classes_of(mine)) {
        filling_.clear(links_, !coefficient.empty(), active, 0);
        for (int32_t slot : mine)
            if (priority[slot] == rank) fill_in(slot, left.data());
        passes += filling_.solve();
        std::vector<double> carried(links_, 0.0);
        for (size_t number = 0, found = 0; number < mine.size(); number++) {
            const int32_t slot = mine[number];
            if (priority[slot] != rank) continue;
            scratch_[number] = filling_.rates()[found++];
            for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++)
                carried[link[pair]] += scratch_[number] * weight(pair);
        }
        for (int64_t one = 0; one < links_; one++) {
            left[one] -= carried[one];
            if (left[one] < NOTHING * capacity[one]) left[one] = 0.0;
        }
    }
    return passes;
}

// A switch serves only its highest active class: a flow runs if none of its switches is used by a running flow of a higher
// class, and none of its links is closed.
int64_t Flows::solve_circuits() {
    const std::vector<int32_t> mine = live();
    std::vector<uint8_t> taken(switch_.size(), 0), runs(mine.size(), 0);
    std::vector<int32_t> starts;
    for (int32_t rank : classes_of(mine)) {
        starts.clear();
        for (size_t number = 0; number < mine.size(); number++) {
            const int32_t slot = mine[number];
            if (priority[slot] != rank) continue;
            bool blocked = false;
            for (int64_t pair = start[slot], end = pair + length[slot]; pair < end && !blocked; pair++) {
                const int32_t one = link[pair];
                blocked = capacity[one] == 0 || taken[ends_[0][one]] || taken[ends_[1][one]];
            }
            if (!blocked) runs[number] = 1, starts.push_back(slot);
        }
        for (int32_t slot : starts)
            for (int64_t pair = start[slot], end = pair + length[slot]; pair < end; pair++)
                for (auto &side : ends_) taken[side[link[pair]]] |= switch_[side[link[pair]]];
    }
    filling_.clear(links_, !coefficient.empty(), active, 0);
    for (size_t number = 0; number < mine.size(); number++)
        if (runs[number]) fill_in(mine[number], capacity.data());
    const int64_t passes = filling_.solve();
    scratch_.assign(mine.size(), 0.0);
    for (size_t number = 0, found = 0; number < mine.size(); number++)
        if (runs[number]) scratch_[number] = filling_.rates()[found++];
    return passes;
}

bool Flows::is_drained(int64_t slot, double now) const {
    const double late = finish[slot] - now;
    return late <= TICKS * now || late * rate[slot] <= DRAINED * bytes[slot];
}

std::vector<int32_t> Flows::find_drained(double now) {
    std::vector<int32_t> found;
    if (!related_) {
        advance_live();
        found.reserve(active);
        each_live([&](int32_t slot) {
            if (is_drained(slot, now)) found.push_back(slot);
        });
        return found;
    }
    while (!heap_.empty() && is_drained(heap_[0], now)) {
        found.push_back(heap_[0]);
        leave_heap(heap_[0]);
    }
    std::sort(found.begin(), found.end());
    return found;
}

// --- the piece that a change disturbs
//
// Levels are found in rising order, so that what has been found stays: of the links that open flows cross, the one with
// the lowest level is saturated next, and its open flows stop there. Resting flows that are faster give way to that
// level. A flow that slows down leaves its other links something, so that flows that rest at their levels, which are
// higher, open too.

struct Flows::Piece {
    static const int32_t OPEN = -2;

    struct Due {
        double key;    // a lower bound of the level of a link, or the cap of a flow
        int32_t what;  // a link, or ~slot of a flow
        bool before(const Due &other) const { return key < other.key || (key == other.key && what < other.what); }
    };
    static constexpr auto later = [](const Due &one, const Due &other) { return other.before(one); };

    struct Member {
        int32_t slot, neck;  // OPEN while the rate is not known
        double rate;
    };
    struct Crossed {
        int32_t link, opened;  // and how many open flows cross it
        double weight, used;   // what the open ones count together, and what all others carry, or more, but for rounding
        double key;            // of its entry that counts, negative where none does
        bool loosened;         // whether flows at its level have opened
        bool raised;           // whether a flow is faster than before
        bool lower;            // whether its bound may be lower than the key, because flows have opened
        bool exact;            // whether the key is its level, for nothing has changed on it since that was found
    };

    Flows &t;
    std::vector<Member> members;
    std::vector<Crossed> crossed;
    std::vector<Due> due, far;  // entries before the horizon, as a heap, and those after it, which may never be looked at
    std::vector<int32_t> lower, slowed;
    int64_t saturated = 0, open = 0;  // links; members whose rate is not known
    double horizon = -1.0, level = 0.0;

    explicit Piece(Flows &flows) : t(flows) {}

    void await(double key, int32_t what) {
        const Due one = {key, what};
        if (key > horizon) {
            far.push_back(one);
            return;
        }
        due.push_back(one);
        std::push_heap(due.begin(), due.end(), later);
    }

    void replace_first(Due one) {  // which the standard library does in two steps
        size_t where = 0;
        for (;;) {
            size_t child = 2 * where + 1;
            if (child >= due.size()) break;
            if (child + 1 < due.size()) child += due[child + 1].before(due[child]);
            if (!due[child].before(one)) break;
            due[where] = due[child];
            where = child;
        }
        due[where] = one;
    }

    void drop_first() {
        const Due last = due.back();
        due.pop_back();
        if (!due.empty()) replace_first(last);
    }

    // Whether none but the first comes before an entry.
    bool is_next(const Due &one) const {
        return !(due.size() > 1 && due[1].before(one)) && !(due.size() > 2 && due[2].before(one));
    }

    int32_t crossing(int32_t link) {
        if (t.local_[link] < 0) {
            t.local_[link] = (int32_t)crossed.size();
            crossed.push_back({link, 0, 0.0, t.load_[link], -1.0, false, false, false, false});
        }
        return t.local_[link];
    }

    int32_t join(int32_t slot) {
        t.mark[slot] = (int32_t)members.size();
        members.push_back({slot, OPEN, 0.0});
        return (int32_t)members.size() - 1;
    }

    // A lower bound of the level of a link with open flows: what the others have, they have at most.
    double bound_of(const Crossed &one) const {
        return std::max((t.capacity[one.link] * CAUTION - one.used) / one.weight, level);
    }

    void open_flow(int32_t slot) {
        const int32_t mine = join(slot);
        if (!t.length[slot]) {
            members[mine].rate = t.cap[slot], members[mine].neck = -1;
            return;
        }
        open++;
        if (t.cap[slot] < INF) await(t.cap[slot], ~slot);
        for (int64_t pair = t.start[slot], end = pair + t.length[slot]; pair < end; pair++) {
            const int32_t where = crossing(t.link[pair]);
            Crossed &one = crossed[where];
            const double weight = t.weight(pair);
            one.opened++, one.weight += weight, one.used -= t.rate[slot] * weight;
            one.exact = false;
            if (!one.lower) one.lower = true, lower.push_back(where);
        }
    }

    void await_lower() {
        for (int32_t where : lower) {
            Crossed &one = crossed[where];
            one.lower = false;
            if (!one.opened) continue;
            const double bound = bound_of(one);
            if (one.key < 0 || bound < one.key) {
                one.key = bound;
                await(bound, one.link);
            }
        }
        lower.clear();
    }

    void loosen(int32_t link) {
        if (!t.resting_[link]) return;
        const int32_t where = crossing(link);
        if (crossed[where].loosened) return;
        crossed[where].loosened = true;
        for (int32_t pair = t.head_[link]; pair >= 0; pair = t.next[pair]) {
            const int32_t slot = t.owner[pair];
            if (t.bottleneck[slot] == link && t.mark[slot] < 0) open_flow(slot);
        }
    }

    void stop(int32_t mine, double rate, int32_t neck, bool was_open) {
        const int32_t slot = members[mine].slot;
        const double old = t.rate[slot];
        members[mine].rate = rate, members[mine].neck = neck;
        open -= was_open;
        for (int64_t pair = t.start[slot], end = pair + t.length[slot]; pair < end; pair++) {
            const int32_t where = t.local_[t.link[pair]];
            if (where < 0) continue;  // it is known where flows are open
            Crossed &one = crossed[where];
            const double weight = t.weight(pair);
            one.used += (was_open ? rate : rate - old) * weight;
            if (was_open) one.opened--, one.weight -= weight;
            one.raised |= rate > old;
            one.exact = false;
        }
        if (old * NEARLY > rate) slowed.push_back(slot);
    }

    // Loosen the links of flows that have slowed down, but for the one that has slowed them.
    void loosen_slowed(int32_t neck) {
        for (size_t one = 0; one < slowed.size(); one++) {
            const int64_t begin = t.start[slowed[one]], end = begin + t.length[slowed[one]];
            for (int64_t pair = begin; pair < end; pair++)
                if (t.link[pair] != neck) loosen(t.link[pair]);
        }
        slowed.clear();
    }

    bool carries_too_much(const Crossed &one) const {
        return one.raised && one.used > t.capacity[one.link] * (2 - CAREFUL);
    }

    // Whether something may stop at an entry; one where nothing does counts no more.
    bool still_counts(const Due &entry) {
        if (entry.what < 0) return members[t.mark[~entry.what]].neck == OPEN;
        Crossed &one = crossed[t.local_[entry.what]];
        if (one.key != entry.key) return false;
        if (one.opened || carries_too_much(one)) return true;
        one.key = -1.0;
        return false;
    }

    // Have the first two entries of all in the heap. Where no flow is open, those that do not count are dropped.
    void look_ahead() {
        if (!open) {
            horizon = -1.0;
            for (const Due &one : due) far.push_back(one);
            due.clear();
        }
        while (due.size() < 2 && !far.empty()) {
            double first = INF;
            size_t kept = 0;
            for (size_t one = 0; one < far.size(); one++) {
                const Due entry = far[one];
                if (!still_counts(entry)) continue;
                first = std::min(entry.key, first);
                far[kept++] = entry;
            }
            far.resize(kept);
            horizon = first * AHEAD;
            std::vector<Due> again;
            again.swap(far);
            for (const Due &one : again) await(one.key, one.what);
        }
    }

    // The level at which a link is saturated, which is at least `least`: flows on it get that, or less. It is infinite
    // where no flow is that fast.
    double level_of(int32_t link, double least) const {
        for (;;) {
            double others = 0.0, sharing = 0.0, slowest = INF;
            for (int32_t pair = t.head_[link]; pair >= 0; pair = t.next[pair]) {
                const int32_t slot = t.owner[pair], mark = t.mark[slot];
                const bool is_open = mark >= 0 && members[mark].neck == OPEN;
                const double rate = mark >= 0 ? members[mark].rate : t.rate[slot], weight = t.weight(pair);
                const bool gives_way = mark < 0 && rate * NEARLY > least;
                if (gives_way) slowest = std::min(rate, slowest);
                if (is_open || gives_way) sharing += weight;
                else others += rate * weight;
            }
            if (sharing == 0) return INF;
            double left = t.capacity[link] - others;
            if (left < t.capacity[link] * NOTHING) left = 0.0;
            const double higher = left / sharing;
            if (slowest * NEARLY > higher || !(higher * NEARLY > least)) return higher;
            least = higher;
        }
    }

    void saturate(int32_t link, double at) {
        saturated++;
        for (int32_t pair = t.head_[link]; pair >= 0; pair = t.next[pair]) {
            const int32_t slot = t.owner[pair], mark = t.mark[slot];
            if (mark >= 0) {
                if (members[mark].neck == OPEN) stop(mark, at, link, true);
            } else if (t.rate[slot] * NEARLY > at) {
                stop(join(slot), at, link, false);
            }
        }
        loosen_slowed(link);
    }

    void solve() {
        for (int64_t slot = t.fresh_; slot < t.slots(); slot++)
            if (t.draining[slot]) open_flow((int32_t)slot);
        for (size_t one = 0; one < t.loose_.size(); one++) loosen(t.loose_[one]);
        for (;;) {
            await_lower();
            look_ahead();
            if (due.empty()) break;
            const Due first = due[0];
            if (!still_counts(first)) {
                drop_first();
                continue;
            }
            if (first.what < 0) {
                drop_first();
                level = first.key;
                stop(t.mark[~first.what], first.key, -1, true);
                loosen_slowed(-1);
                continue;
            }
            const int32_t where = t.local_[first.what];
            double found = first.key;
            if (!crossed[where].exact) {
                found = crossed[where].opened ? bound_of(crossed[where]) : level;
                if (is_next({found, first.what})) {
                    found = level_of(crossed[where].link, found);
                    crossed[where].exact = true;
                }
            }
            const Due again = {found, first.what};
            const bool comes_later = found < INF && !is_next(again);
            crossed[where].key = comes_later ? found : -1.0;
            if (comes_later && found <= horizon) {
                replace_first(again);
                continue;
            }
            drop_first();
            if (comes_later) {
                await(found, first.what);
            } else if (found < INF) {  // else nothing stops here
                level = found;
                saturate(crossed[where].link, found);
            }
        }
    }
};

// Solve again what a change disturbs: the new slots, and what the loose links limited.
Work Flows::repair(double now) {
    link_new();
    Piece piece(*this);
    piece.solve();
    for (const auto &one : piece.crossed) local_[one.link] = -1;
    for (const auto &one : piece.members) {
        mark[one.slot] = -1;
        int32_t &neck = bottleneck[one.slot];
        if (neck >= 0) resting_[neck]--;
        if (one.neck >= 0) resting_[one.neck]++;
        neck = one.neck;
        if (one.rate != rate[one.slot]) {
            const double more = one.rate - rate[one.slot];
            for (int64_t pair = start[one.slot], end = pair + length[one.slot]; pair < end; pair++)
                load_[link[pair]] += more * weight(pair);
            set_rate(one.slot, one.rate, now);
            sift(place[one.slot], one.slot);
        }
    }
    return {(int64_t)piece.members.size(), piece.saturated};
}

}  // namespace fredfw
