#include "network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "run.hpp"
#include "tasks.hpp"

namespace fredfw {
namespace {

// How long a step goes on: for so many events, and for a time that nobody notices, because an interrupt waits for its end.
class Patience {
  public:
    explicit Patience(int64_t events) : left_(events), until_(Clock::now() + std::chrono::milliseconds(50)) {}
    bool is_over() { return left_-- <= 0 || (!(left_ & 7) && Clock::now() > until_); }

  private:
    using Clock = std::chrono::steady_clock;
    int64_t left_;
    Clock::time_point until_;
};

}  // namespace

double Batch::delay_of(int64_t flow) const {
    if (!delay.empty()) return delay[flow];
    const double latency = routes().latency[route(flow)];
    if (cargo.repeat == 1) return latency;
    return latency * (double)cargo.repeat + cargo.setup * (double)(cargo.repeat - 1);
}

void OwnRoutes::add(const Routes &from, int64_t flow) {
    if (offset.empty()) offset.push_back(0);
    if (from.coefficient && coefficient.empty()) coefficient.assign(link.size(), 1.0);
    const bool weighted = from.coefficient || !coefficient.empty();
    for (int64_t pair = from.offset[flow]; pair < from.offset[flow + 1]; pair++) {
        link.push_back(from.link[pair]);
        if (weighted) coefficient.push_back(from.coefficient ? from.coefficient[pair] : 1.0);
    }
    offset.push_back((int64_t)link.size());
    latency.push_back(from.latency[flow]);
}

void OwnRoutes::bind() {
    if (offset.empty()) offset.push_back(0);
    view = {(int64_t)latency.size(), (int64_t)link.size(), offset.data(), link.data(), latency.data(),
            coefficient.empty() ? nullptr : coefficient.data()};
}

Network::Network(const fredfw_setting &setting)
    : flows(setting.links, setting.bandwidth, (Sharing)setting.sharing, setting.nodes, setting.source,
            setting.destination, setting.is_switch),
      open(setting.open), local(setting.local), foreign(setting.sharing == FOREIGN),
      starts_streams(setting.starts_streams), held_until(INF), is_closed_(setting.links, 0) {
    for (int64_t link = 0; link < setting.links; link++) closed |= is_closed_[link] = setting.bandwidth[link] == 0;
}

Network::~Network() = default;

void Cargo::io(Archive &archive) {
    archive(routes, members, count, period, block, activities, repeat, first_setup, setup, priority, label);
    archive(takes_turns, in_order, own);
    const int64_t places = members.empty() ? count : routes.count;
    archive.column(volumes, own ? 0 : period ? period : places);
    archive.column(caps, places), archive.column(activity, places);
    if (own) volumes = own->data();
}

void Batch::io(Archive &archive) {
    archive(serial, there, before, after, ticket, run, carry, token, weight, hears_drain, entered, since);
    archive(unfinished, draining, pending, end, laid, delay, drained_at, detour, laps);
    archive(guests, is_listed, latest, partners);
    if (there) archive(cargo);
}

void OwnRoutes::io(Archive &archive) {
    archive(offset, link, latency, coefficient);
    bind();
}

void Network::io(Archive &archive) {
    archive(now, calendar, flows, statistics, notices, weights, closed, held_until, held, rerouted, links_as_built);
    archive(claims, claimed, batches_, oldest_, newest_, serials_, lists_, is_closed_, moved_, stepping_, meetings_);
    archive(run_of_);
    runs_.io(archive, [&](std::unique_ptr<Run> &run) { save_run(archive, *this, run); });
    if (archive.reads()) arena_ = archive.arena;
}

// --- time

void Network::later(const Run &run, What what, double delay, int32_t priority, int64_t detail) {
    calendar.push(now + delay, priority, what, run.number, run.serial, detail);
}

bool Network::is_void(const Event &event) const {
    if (event.what == What::TIMER || event.is_of_tasks()) return false;
    if (event.what <= What::BATCH_ENDS) return batches_[event.whose].serial != event.serial;
    const Run *run = runs_[event.whose].get();
    return !run || run->serial != event.serial || (event.what == What::FORESEEN && !run->foresees());
}

void Network::drop_void() {
    while (!calendar.empty()) {
        const Event &first = calendar.first();
        const bool is_gone = first.what == What::TIMER && calendar.is_withdrawn(first);
        if (!is_gone && !is_void(first)) return;
        const bool has_list = first.what != What::TIMER && first.what != What::CHOOSES;  // others of these are never void
        if (has_list && first.detail >= 0) take_list(first.detail);
        calendar.pop();
    }
}

bool Network::settle() {
    if (!std::isnan(flows.first_done())) return true;
    if (flows.crowded()) flows.compact();
    Work work;
    if (!flows.settle(now, work)) return false;
    if (flows.active) {
        statistics.solves++, statistics.solved += work.flows, statistics.passes += work.passes;
        statistics.most_passes = std::max(statistics.most_passes, work.passes);
    }
    return true;
}

Network::Step Network::step(double until, int64_t most) {
    Patience patience(most);
    for (;;) {
        if (!notices.empty()) return Step::NOTICE;
        drop_void();
        const double due = calendar.empty() ? INF : calendar.first().time;
        if (stepping_ && due <= now) {
            if (patience.is_over()) return Step::MORE;
            happen(calendar.pop());
            continue;
        }
        stepping_ = false;
        double moment = now;
        if (due > now) {
            if (!settle()) return Step::RATES;
            moment = std::min(due, flows.first_done());
            if (held_until < moment && held_until <= until) {  // nothing happens until other rates hold
                now = held_until;
                held_until = INF;
                flows.forget_rates();
                if (patience.is_over()) return Step::MORE;
                continue;
            }
        }
        if (!(moment <= until) || moment == INF) return Step::OVER;
        if (patience.is_over()) return Step::MORE;
        statistics.events++;
        now = moment;
        stepping_ = true;
        if (moment >= flows.first_done()) take_drained();
    }
}

double Network::next() {
    if (!notices.empty()) return now;
    drop_void();
    const double due = calendar.empty() ? INF : calendar.first().time;
    if (due <= now) return now;
    if (!settle()) return UNKNOWN;
    return std::min({due, flows.first_done(), held_until});
}

bool Network::idle() {
    drop_void();
    return calendar.empty() && !flows.active && notices.empty();
}

void Network::happen(const Event &event) {
    switch (event.what) {
    case What::TIMER: notify(FREDFW_TIMER, event.sequence); return;
    case What::BATCH_BEGINS: return begin(event.whose);
    case What::BATCH_DRAINED: {
        const Batch &batch = batches_[event.whose];
        std::vector<int32_t> activities = take_list(event.detail);
        if (batch.run >= 0) {
            const int64_t run = batch.run;
            runs_[run]->drained(batch.carry, activities);
            return forget_if_over(run);
        }
        notify(FREDFW_DRAINED, batch.ticket, 0, activities);
        return;
    }
    case What::BATCH_ENDS: return complete(event.whose, take_list(event.detail));
    default:
        if (event.is_of_tasks()) return tasks->happen(event);
        runs_[event.whose]->happen(event);
        forget_if_over(event.whose);
    }
}

std::vector<int32_t> Network::take_list(int64_t number) {
    lists_.leave(number);
    return std::exchange(lists_[number], {});
}

int64_t Network::keep_list(std::vector<int32_t> list) {
    const int64_t number = lists_.take();
    lists_[number] = std::move(list);
    return number;
}

// --- batches

int64_t Network::admit(Cargo cargo, int64_t ticket, int64_t run, int64_t carry, int64_t token, bool hears_drain) {
    const int64_t number = batches_.take();
    Batch &batch = batches_[number];
    batch.serial = ++serials_, batch.there = true;
    batch.before = newest_, batch.after = -1;
    (newest_ < 0 ? oldest_ : batches_[newest_].after) = number;
    newest_ = number;
    batch.ticket = ticket, batch.run = run, batch.carry = carry, batch.token = token;
    batch.hears_drain = hears_drain;
    batch.entered = now, batch.since = UNKNOWN;
    batch.unfinished = cargo.activities;
    batch.weight = cargo.label < (int32_t)weights.size() ? weights[cargo.label] : 1.0;
    batch.cargo = std::move(cargo);
    batch.draining = 0;
    batch.guests = 0, batch.is_listed = false, batch.latest = 0.0;
    statistics.batches++, statistics.flows += batch.cargo.count;
    enter(number);
    if (batch.cargo.first_setup > 0)
        calendar.push(now + batch.cargo.first_setup, ENDS, What::BATCH_BEGINS, number, batch.serial, -1);
    else
        begin(number);
    return number;
}

// Put the flows of a batch on the links; what has no flows, or nothing to wait for, is drained at once.
void Network::begin(int64_t number) {
    Batch &batch = batches_[number];
    const Cargo &cargo = batch.cargo;
    batch.since = now;
    batch.pending.assign(cargo.activities, 0);
    batch.end.assign(cargo.activities, now);
    for (int64_t flow = 0; flow < cargo.count; flow++) batch.pending[cargo.activity_of(flow)]++;
    std::vector<int32_t> empty;
    if (cargo.count < cargo.activities || cargo.activity)
        for (int64_t one = 0; one < cargo.activities; one++)
            if (!batch.pending[one]) {
                batch.end[one] += cargo.setup * (double)(cargo.repeat - 1);
                empty.push_back((int32_t)one);
            }
    deliver(number, empty);
    if (cargo.repeat > 1) batch.drained_at.assign(cargo.count, INF);
    std::vector<int32_t> free;
    bool holds = false;
    const Routes &routes = batch.routes();
    if (cargo.count > 64 && cargo.members.empty()) flows.reserve(cargo.count, routes.offset[routes.count]);
    for (int64_t flow = 0; flow < cargo.count; flow++) {
        if (closed && crosses_closed(routes, batch.route(flow))) {  // what has no bytes waits with the others
            holds = true;
            if (batch.volume_laid(flow) < LEAST) make_laid(batch), batch.laid[flow] = LEAST;
        }
        lay(number, flow, batch.volume_laid(flow), free);
    }
    if (holds) hold(cargo.label);
    drained(number, free);
}

void Network::lay(int64_t number, int64_t flow, double volume, std::vector<int32_t> &free) {
    Batch &batch = batches_[number];
    const Routes &routes = batch.routes();
    const int64_t route = batch.route(flow);
    const double cap = batch.cargo.cap(flow), weight = batch.weight;
    const bool is_free = volume <= LEAST || (routes.offset[route] == routes.offset[route + 1] && std::isinf(cap));
    if (is_free && !(closed && crosses_closed(routes, route))) {
        free.push_back((int32_t)flow);
        return;
    }
    if (claimed) yield_links(routes, route);
    const int64_t slot = flows.put(routes, route, std::max(volume, LEAST) / weight, cap / weight, batch.cargo.priority,
                                   weight, now);
    flows.batch[slot] = (int32_t)number, flows.member[slot] = (int32_t)flow;
    batch.draining++;
}

void Network::take_drained() {
    const std::vector<int32_t> gone = flows.find_drained(now);
    flows.drop(gone);
    std::vector<std::pair<int64_t, std::vector<int32_t>>> groups;  // read before others come to their slots
    for (size_t one = 0; one < gone.size();) {
        const int32_t number = flows.batch[gone[one]];
        size_t end = one;
        while (end < gone.size() && flows.batch[gone[end]] == number) end++;
        groups.emplace_back(number, std::vector<int32_t>(end - one));
        for (int32_t &member : groups.back().second) member = flows.member[gone[one++]];
        batches_[number].draining -= (int64_t)groups.back().second.size();
    }
    for (auto &one : groups) drained(one.first, one.second);
}

void Network::drained(int64_t number, const std::vector<int32_t> &which) {
    Batch &batch = batches_[number];
    std::vector<int32_t> over;
    for (int32_t flow : which) {
        if (!batch.drained_at.empty()) batch.drained_at[flow] = now;
        const int64_t activity = batch.cargo.activity_of(flow);
        batch.end[activity] = std::max(batch.end[activity], now + batch.delay_of(flow));
        if (!--batch.pending[activity]) over.push_back((int32_t)activity);
    }
    if (!std::is_sorted(over.begin(), over.end())) std::sort(over.begin(), over.end());
    deliver(number, over);
}

// Note the end of activities, whose flows are all drained; equal ends are one event.
void Network::deliver(int64_t number, std::vector<int32_t> &activities) {
    Batch &batch = batches_[number];
    if (activities.empty()) return;
    if (batch.hears_drain) {
        std::vector<int32_t> heard = activities;
        if (batch.laps) drop_if(heard, [&](int32_t one) { return batch.laps->later[one] > 0; });
        calendar.push(now, ENDS, What::BATCH_DRAINED, number, batch.serial, keep_list(std::move(heard)));
    }
    const auto sooner = [&](int32_t one, int32_t other) { return batch.end[one] < batch.end[other]; };
    if (!std::is_sorted(activities.begin(), activities.end(), sooner))
        std::stable_sort(activities.begin(), activities.end(), sooner);
    for (size_t one = 0; one < activities.size();) {
        size_t last = one;
        const double time = batch.end[activities[one]];
        while (last < activities.size() && batch.end[activities[last]] == time) last++;
        calendar.push(time, ENDS, What::BATCH_ENDS, number, batch.serial,
                      keep_list({activities.begin() + (int64_t)one, activities.begin() + (int64_t)last}));
        one = last;
    }
}

void Network::complete(int64_t number, const std::vector<int32_t> &given) {
    Batch &batch = batches_[number];
    std::vector<int32_t> activities = given;
    if (batch.laps && !next_laps(number, activities)) return;
    for (int32_t one : activities) batch.pending[one] = -1;
    batch.unfinished -= (int64_t)activities.size();
    const int64_t run = batch.run, carry = batch.carry, ticket = batch.ticket;
    const bool is_over = batch.unfinished == 0;
    if (is_over) close(number);
    if (run >= 0) {
        runs_[run]->ended(carry, activities);
        return forget_if_over(run);
    }
    notify(FREDFW_ENDED, ticket, is_over, activities);
}

void Network::unsay(std::initializer_list<int64_t> kinds, int64_t whose) {
    drop_if(notices, [&](const Notice &one) {
        return one.whose == whose && std::find(kinds.begin(), kinds.end(), one.what) != kinds.end();
    });
}

void Network::close(int64_t number) {
    Batch &batch = batches_[number];
    const Routes &routes = batch.routes();
    for (int64_t flow = 0; flow < batch.cargo.count; flow++)
        account(batch.cargo.label, routes, batch.route(flow), batch.volume_laid(flow));
    leave(number);
    if (batch.laps && !notices.empty()) unsay({FREDFW_ROUTE}, number);
    if (batch.token) notify(FREDFW_CLOSED, batch.token);
    (batch.before < 0 ? oldest_ : batches_[batch.before].after) = batch.after;
    (batch.after < 0 ? newest_ : batches_[batch.after].before) = batch.before;
    batch.serial = 0, batch.there = false;
    batch.cargo.members.clear(), batch.partners.clear();
    batch.laid.clear(), batch.delay.clear(), batch.drained_at.clear();
    batch.detour.reset(), batch.laps.reset();
    batches_.leave(number);
}

void Network::account(int32_t label, const Routes &routes, int64_t flow, double bytes, LinkBytes &moved) const {
    if ((int32_t)moved.size() <= label) moved.resize(label + 1);
    if (moved[label].empty()) moved[label].assign(flows.capacity.size(), 0.0);
    double *total = moved[label].data();
    for (int64_t pair = routes.offset[flow]; pair < routes.offset[flow + 1]; pair++)
        total[routes.link[pair]] += routes.coefficient ? bytes * routes.coefficient[pair] : bytes;
}

std::vector<std::vector<int32_t>> Network::slots_by_batch() const {
    std::vector<std::vector<int32_t>> found(batches_.size());
    flows.each_live([&](int32_t slot) { found[flows.batch[slot]].push_back(slot); });
    return found;
}

std::vector<int32_t> Network::slots_of(int64_t number) const {
    std::vector<int32_t> found;
    if (!batches_[number].draining) return found;
    flows.each_live([&](int32_t slot) {
        if (flows.batch[slot] == number) found.push_back(slot);
    });
    return found;
}

void Network::cancel(int64_t ticket, int64_t run) {
    for (int64_t one = oldest_, after; one >= 0; one = after) {
        Batch &batch = batches_[one];
        after = batch.after;
        if (batch.ticket != ticket || batch.run != run) continue;
        const std::vector<int32_t> slots = slots_of(one);
        batch.laid = position(batch, slots).sent;
        flows.drop(slots);
        batch.draining = 0;
        batch.serial = ++serials_;
        close(one);
    }
    if (!notices.empty() && ticket) unsay({FREDFW_ENDED, FREDFW_DRAINED}, ticket);
}

void Network::stalled(std::vector<int64_t> &found) {
    std::vector<uint8_t> seen(batches_.size(), 0);
    flows.each_live([&](int32_t slot) {
        if (flows.rate[slot] > 0 || seen[flows.batch[slot]]) return;
        seen[flows.batch[slot]] = 1;
        found.push_back(flows.batch[slot]);
    });
}

Network::LinkBytes Network::link_bytes() {
    LinkBytes total = moved_;
    const auto slots = slots_by_batch();
    for (int64_t one = oldest_; one >= 0; one = batches_[one].after) {
        const Batch &batch = batches_[one];
        const std::vector<double> bytes = position(batch, slots[one]).sent;
        for (int64_t flow = 0; flow < batch.cargo.count; flow++)
            account(batch.cargo.label, batch.routes(), batch.route(flow), bytes[flow], total);
    }
    if (claimed)
        for (const auto &run : runs_.all())
            if (run)
                run->moved([&](const Routes &routes, int64_t flow, double sent) {
                    account(run->label, routes, flow, sent, total);
                });
    return total;
}

// --- links

bool Network::crosses_closed(const Routes &routes, int64_t flow) const {
    for (int64_t pair = routes.offset[flow]; pair < routes.offset[flow + 1]; pair++)
        if (is_closed_[routes.link[pair]]) return true;
    return false;
}

bool Network::crosses_closed(const Batch &batch) const {
    if (!closed) return false;
    for (int64_t flow = 0; flow < batch.cargo.count; flow++)
        if (crosses_closed(batch.routes(), batch.route(flow))) return true;
    return false;
}

void Network::set_bandwidths(const double *values) {
    yield_links();
    const auto slots = slots_by_batch();
    std::vector<int64_t> here;
    for (int64_t one = oldest_; one >= 0; one = batches_[one].after) here.push_back(one);
    for (int64_t one : here) split(one, slots[one]);
    flows.set_capacity(values);
    links_as_built = false;
    closed = false;
    for (size_t link = 0; link < is_closed_.size(); link++) closed |= is_closed_[link] = values[link] == 0;
    for (int64_t one : here) drain_waiting(one);
}

// Messages without bytes that have waited for a way.
void Network::drain_waiting(int64_t number) {
    Batch &batch = batches_[number];
    if (!batch.there || !batch.draining || batch.laid.empty()) return;
    std::vector<int32_t> slots, which;
    for (int32_t slot : slots_of(number)) {
        const int32_t flow = flows.member[slot];
        if (batch.laid[flow] <= LEAST && !crosses_closed(batch.routes(), batch.route(flow)))
            slots.push_back(slot), which.push_back(flow);
    }
    if (slots.empty()) return;
    flows.drop(slots);
    batch.draining -= (int64_t)slots.size();
    drained(number, which);
}

void Network::reroute(int64_t number, const Routes &routes, int64_t &moved, bool &stranded) {
    Batch &batch = batches_[number];
    const int64_t count = batch.cargo.count;
    std::vector<uint8_t> crossing(count), leaving(count);
    bool any = false;
    for (int64_t flow = 0; flow < count; flow++) {
        crossing[flow] = crosses_closed(batch.routes(), batch.route(flow));
        leaving[flow] = crossing[flow] && !crosses_closed(routes, flow);
        any |= leaving[flow];
    }
    stranded = false;
    if (std::isnan(batch.since))
        for (int64_t flow = 0; flow < count; flow++) stranded |= crossing[flow] && !leaving[flow];
    const std::shared_ptr<OwnRoutes> old = batch.detour;  // which stays as long as `before` is used
    const Routes before = batch.routes();
    std::vector<int32_t> slots = slots_of(number);
    if (any) {
        split(number, slots);
        slots = slots_of(number);
        auto chosen = std::make_shared<OwnRoutes>();
        for (int64_t flow = 0; flow < count; flow++)
            chosen->add(leaving[flow] ? routes : before, leaving[flow] ? flow : batch.route(flow));
        chosen->bind();
        std::vector<int32_t> gone, which;
        std::vector<double> rest;
        for (int32_t slot : slots)
            if (leaving[flows.member[slot]]) {
                gone.push_back(slot), which.push_back(flows.member[slot]);
                rest.push_back(flows.left(slot, now) * flows.scale[slot]);
            }
        const bool begun = !std::isnan(batch.since);
        if (begun) make_laid(batch);
        flows.drop(gone);
        batch.draining -= (int64_t)gone.size();
        for (size_t one = 0; one < which.size(); one++) {
            const int32_t flow = which[one];
            account(batch.cargo.label, before, batch.route(flow), batch.laid[flow] - rest[one]);
            batch.laid[flow] = rest[one];
        }
        // Flows that have drained stay accounted over the way that they took.
        std::vector<uint8_t> drains(count, 0);
        for (int32_t flow : which) drains[flow] = 1;
        for (int64_t flow = 0; flow < count && begun; flow++)
            if (leaving[flow] && !drains[flow]) {
                account(batch.cargo.label, before, batch.route(flow), batch.laid[flow]);
                batch.laid[flow] = 0.0;
            }
        batch.detour = chosen;
        moved += (int64_t)which.size();
        std::vector<int32_t> at_once;
        for (size_t one = 0; one < which.size(); one++) {
            const int32_t flow = which[one];
            const int64_t activity = batch.cargo.activity_of(flow);
            batch.delay[flow] = batch.routes().latency[flow];
            if (batch.laps && batch.laps->later[activity] > 0) batch.delay[flow] += batch.cargo.setup;
            lay(number, flow, rest[one], at_once);
        }
        drained(number, at_once);
    }
    for (int32_t slot : slots_of(number)) {
        const int32_t flow = flows.member[slot];
        stranded |= crossing[flow] && !leaving[flow];
    }
}

void Network::yield_links(const Routes &routes, int64_t flow) {
    for (int64_t pair = routes.offset[flow]; pair < routes.offset[flow + 1] && claimed; pair++) {
        const int64_t run = claims[routes.link[pair]];
        if (run >= 0) runs_[run]->give_up();
    }
}

void Network::yield_links() {
    for (const auto &run : runs_.all())
        if (run && claimed) run->give_up();
}

bool Network::used_by_batches(const std::vector<int32_t> &group_of_link) const {
    for (int64_t one = oldest_; one >= 0; one = batches_[one].after) {
        const Batch &batch = batches_[one];
        const Routes &routes = batch.routes();
        for (int64_t flow = 0; flow < batch.cargo.count; flow++) {
            const int64_t route = batch.route(flow);
            for (int64_t pair = routes.offset[route]; pair < routes.offset[route + 1]; pair++)
                if (group_of_link[routes.link[pair]] >= 0) return true;
        }
    }
    return false;
}

// --- runs

int64_t Network::add(std::unique_ptr<Run> run) {
    const int64_t number = runs_.take();
    run->number = number, run->serial = ++serials_;
    const int64_t name = run->serial;
    run_of_[name] = number;
    runs_[number] = std::move(run);
    return name;
}

Run *Network::find_run(int64_t name) const {
    const auto found = run_of_.find(name);
    return found == run_of_.end() ? nullptr : runs_[found->second].get();
}

void Network::forget_if_over(int64_t number) {
    if (!runs_[number] || !runs_[number]->is_over) return;
    run_of_.erase(runs_[number]->serial);
    runs_[number].reset();
    runs_.leave(number);
}

// --- meetings

namespace {

const double TOGETHER = 1e-9;  // moments that differ by less than this share of what has passed between them are the same

}  // namespace

void Network::list_user(int64_t number) {
    batches_[number].is_listed = true;
    batches_[number].cargo.each_link([&](int64_t link, int64_t) {
        std::vector<int32_t> &users = meetings_.users[link];
        if (users.empty() || users.back() != number) users.push_back((int32_t)number);
    });
}

void Network::unlist_user(int64_t number) {
    batches_[number].is_listed = false;
    batches_[number].cargo.each_link([&](int64_t link, int64_t) {
        std::vector<int32_t> &users = meetings_.users[link];
        const auto mine = std::find(users.begin(), users.end(), (int32_t)number);
        if (mine == users.end()) return;
        *mine = users.back();
        users.pop_back();
    });
}

void Network::enter(int64_t number) {
    Batch &batch = batches_[number];
    const Cargo &cargo = batch.cargo;
    Meetings &m = meetings_;
    if (m.here && (m.compressed || cargo.repeat > 1)) {
        std::vector<int64_t> met;
        const auto meet = [&](int64_t one) {
            if (std::exchange(batches_[one].met_by, batch.serial) != batch.serial) met.push_back(one);
        };
        if (!cargo.takes_turns) {
            m.users.resize(is_closed_.size());
            for (int64_t one = batch.before; one >= 0 && !batches_[one].is_listed; one = batches_[one].before)
                list_user(one);
            cargo.each_link([&](int64_t link, int64_t) {
                for (int32_t one : m.users[link]) meet(one);
            });
        }
        if (cargo.takes_turns || m.turning || !local)
            for (int64_t one = oldest_; one >= 0; one = batches_[one].after)
                if (cargo.takes_turns || batches_[one].cargo.takes_turns ||  // other parts are on their way soon
                    (!local && batches_[one].cargo.priority != cargo.priority))
                    meet(one);
        for (int64_t one : met) {
            Batch &other = batches_[one];
            if (one == number || (cargo.repeat == 1 && other.cargo.repeat == 1)) continue;
            const bool turns = cargo.takes_turns || other.cargo.takes_turns;
            if (batch.entered == other.entered && cargo.first_setup == other.cargo.first_setup &&
                cargo.setup == other.cargo.setup && cargo.repeat == other.cargo.repeat && !turns) {
                const int64_t pair = ++m.numbers;
                m.pairs[pair] = {};
                batch.partners.push_back(pair), other.partners.push_back(pair);
            } else if (other.latest == now) {
                other.guests++;
            } else {  // it is still here, so it has met those that came before
                statistics.met += other.guests;
                other.latest = now, other.guests = 1;
            }
        }
    }
    m.here++;
    m.compressed += cargo.repeat > 1;
    m.turning += cargo.takes_turns;
}

void Network::leave(int64_t number) {
    Batch &batch = batches_[number];
    const Cargo &cargo = batch.cargo;
    Meetings &m = meetings_;
    m.here--;
    m.compressed -= cargo.repeat > 1;
    m.turning -= cargo.takes_turns;
    if (batch.is_listed) unlist_user(number);
    if (cargo.repeat == 1 && !batch.guests && batch.partners.empty()) return;  // it has met nothing that matters
    if (!cargo.count || batch.end.empty() || std::isnan(batch.since)) {
        for (int64_t pair : batch.partners) m.pairs.erase(pair);
        return;
    }
    double low = INF, high = -INF;
    for (int64_t flow = 0; flow < cargo.count; flow++) {
        const double end = batch.end[cargo.activity_of(flow)];
        low = std::min(low, end), high = std::max(high, end);
    }
    const double slack = TOGETHER * (high - batch.entered);
    if (high > batch.latest + slack) statistics.met += batch.guests;  // else they came when it had just ended
    if (cargo.repeat > 1 && high - low > slack) statistics.met += meets_inside(batch, slack);
    for (int64_t number_of_pair : batch.partners) {
        const auto found = m.pairs.find(number_of_pair);
        if (found == m.pairs.end()) continue;
        Meetings::Pair &pair = found->second;
        if (pair.first_left) {
            statistics.met += std::max(high, pair.high) - std::min(low, pair.low) > slack;
            m.pairs.erase(found);
        } else {
            pair = {true, low, high};
        }
    }
}

bool Network::meets_inside(const Batch &batch, double slack) const {
    std::unordered_map<int64_t, double> end_on;
    bool meets = false;
    batch.cargo.each_link([&](int64_t link, int64_t flow) {
        const double end = batch.end[batch.cargo.activity_of(flow)];
        meets = meets || std::abs(end_on.emplace(link, end).first->second - end) > slack;
    });
    return meets;
}

}  // namespace fredfw
