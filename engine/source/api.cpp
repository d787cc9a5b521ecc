// The border: what comes in is checked here, and nothing is thrown across it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>

#include "fredfw.h"
#include "run.hpp"
#include "tasks.hpp"

using namespace fredfw;

struct fredfw_schedule {
    std::shared_ptr<Schedule> schedule;
};

struct fredfw_lowered {
    std::shared_ptr<Lowered> lowered;
};

struct fredfw_network {
    explicit fredfw_network(const Setting &setting) : network(setting), links(setting.links) {}
    Network network;
    int64_t links;
    Notice notice;  // that the caller looks at
};

namespace {

thread_local std::string told;
const double INF = std::numeric_limits<double>::infinity();
const int64_t MOST = INT32_MAX;  // flows, groups and phases are numbered by 32 bits

struct Refused {
    std::string what;
};

// What is wrong is put together only where something is.
#define require(holds, what) \
    do {                     \
        if (!(holds)) throw Refused{what}; \
    } while (false)

std::string at(const char *what, int64_t row) { return std::string(what) + "[" + std::to_string(row) + "]"; }

// Do something; what it throws becomes a number.
template <class Function> auto guard(Function function) noexcept -> decltype(function()) {
    try {
        return function();
    } catch (const Refused &refused) {
        told = refused.what;
        return (decltype(function()))FREDFW_REFUSED;
    } catch (const std::runtime_error &error) {
        told = error.what();
        return (decltype(function()))FREDFW_REFUSED;
    } catch (const std::bad_alloc &) {
        told = "there is not enough memory";
        return (decltype(function()))FREDFW_NO_MEMORY;
    }
}

template <class Function> auto guard_made(Function function) noexcept -> decltype(function()) {
    try {
        return function();
    } catch (const Refused &refused) {
        told = refused.what;
    } catch (const std::bad_alloc &) {
        told = "there is not enough memory";
    }
    return nullptr;
}

void check_numbers(const char *what, const int64_t *values, int64_t count, int64_t limit) {
    require(count >= 0 && count <= MOST && (values || !count), std::string(what) + ": no array, or a wrong count");
    for (int64_t one = 0; one < count; one++)
        require(values[one] >= 0 && values[one] < limit,
                at(what, one) + " is " + std::to_string(values[one]) + ", accepted are 0 to " + std::to_string(limit - 1));
}

void check_offsets(const char *what, const int64_t *offset, int64_t rows) {
    require(offset && offset[0] == 0, std::string(what) + ": offsets begin at 0");
    for (int64_t row = 0; row < rows; row++)
        require(offset[row + 1] >= offset[row] && offset[row + 1] <= MOST, at(what, row + 1) + ": offsets do not fall");
}

void check_amounts(const char *what, const double *values, int64_t count, bool positive) {
    for (int64_t one = 0; one < count; one++)
        require(positive ? values[one] > 0 : values[one] >= 0 && values[one] < INF,
                at(what, one) + " is " + std::to_string(values[one]) +
                    (positive ? ", accepted is more than 0" : ", accepted are finite numbers of 0 or more"));
}

Routes checked(const fredfw_routes &routes, int64_t links, int64_t flow = -1) {
    require(routes.count >= 0 && routes.count <= MOST, "routes: a wrong count");
    require(routes.offset && (routes.latency || !routes.count), "routes: no array");
    if (flow < 0) {
        check_offsets("offset", routes.offset, routes.count);
        check_numbers("link", routes.link, routes.offset[routes.count], links);
        check_amounts("latency", routes.latency, routes.count, false);
        if (routes.coefficient) check_amounts("coefficient", routes.coefficient, routes.offset[routes.count], true);
    } else {
        require(flow < routes.count, "flow " + std::to_string(flow) + " is not there");
        const int64_t first = routes.offset[flow], last = routes.offset[flow + 1];
        require(first >= 0 && last >= first, "offset: offsets do not fall");
        check_numbers("link", routes.link + first, last - first, links);
        check_amounts("latency", routes.latency + flow, 1, false);
    }
    Routes view;
    view.offset = routes.offset, view.link = routes.link, view.latency = routes.latency;
    view.coefficient = routes.coefficient, view.count = routes.count;
    return view;
}

Table rows(const char *what, const int64_t *offset, const int64_t *value, int64_t count, int64_t limit) {
    check_offsets(what, offset, count);
    check_numbers(what, value, offset[count], limit);
    Table table;
    table.offset.assign(offset, offset + count + 1);
    table.value.assign(value, value + offset[count]);
    return table;
}

std::vector<int32_t> narrow(const char *what, const int64_t *values, int64_t count, int64_t limit) {
    check_numbers(what, values, count, limit);
    return std::vector<int32_t>(values, values + count);
}

Run &running(fredfw_network *network, int64_t name) {
    Run *run = network->network.find_run(name);
    require(run != nullptr, "run " + std::to_string(name) + " is over, or never was");
    return *run;
}

int64_t take(fredfw_network *network, int64_t place, fredfw_notice *notice) {
    std::deque<Notice> &notices = network->network.notices;
    network->notice = std::move(notices[place]);
    notices.erase(notices.begin() + place);
    const Notice &one = network->notice;
    *notice = {one.what, one.whose, one.detail, (int64_t)one.list.size(), (int64_t)one.others.size(),
               one.list.data(), one.others.data()};
    return one.what;
}

}  // namespace

int64_t fredfw_abi(void) { return FREDFW_ABI; }

const char *fredfw_error(void) { return told.c_str(); }

int64_t fredfw_max_min(int64_t flows, int64_t links, const int64_t *offset, const int64_t *link, const double *coefficient,
                       const double *capacity, double *rates) {
    return guard([&]() -> int64_t {
        require(flows >= 0 && flows <= MOST && links >= 0 && links <= MOST, "flows, links: a wrong count");
        check_offsets("offset", offset, flows);
        check_numbers("link", link, offset[flows], links);
        return max_min(flows, links, offset, link, coefficient, capacity, rates);
    });
}

// --- schedules

fredfw_schedule *fredfw_schedule_new(int64_t ranks, int64_t count, const fredfw_phase *phases, int64_t flags) {
    return guard_made([&]() -> fredfw_schedule * {
        require(ranks > 0 && ranks <= MOST, "ranks: a wrong count");
        require(count >= 0 && count <= MOST && (phases || !count), "phases: no array, or a wrong count");
        auto made = std::make_shared<Schedule>();
        made->ranks = ranks;
        made->smallest_first = flags & FREDFW_SMALLEST_FIRST, made->keeps = !(flags & FREDFW_RELEASES_DRAINED);
        made->phases.resize(count);
        for (int64_t index = 0; index < count; index++) {
            const fredfw_phase &from = phases[index];
            Phase &to = made->phases[index];
            require(from.repeat >= 1 && from.repeat <= MOST, at("repeat", index) + ": a wrong count");
            require(from.channel >= -1 && from.channel <= MOST && from.turn >= -1 && from.turn <= index,
                    at("turn", index) + " is no phase of its channel");
            to.repeat = from.repeat, to.channel = (int32_t)from.channel, to.turn = (int32_t)from.turn;
            to.after = narrow("after", from.after, from.after_count, index);
            to.behind = narrow("behind", from.behind, from.behind_count, index);
            to.room = narrow("room", from.room, from.room_count, index);
            check_numbers("source", from.source, from.unicasts, ranks);
            check_numbers("destination", from.destination, from.unicasts, ranks);
            to.unicasts = from.unicasts, to.flows = from.unicasts + from.streams;
            to.source = from.source, to.destination = from.destination;
            require(from.streams >= 0 && to.flows <= MOST, "streams: a wrong count");
            if (from.streams) {
                to.stream_sources = rows("stream_source", from.stream_source_offset, from.stream_source, from.streams, ranks);
                to.stream_destinations = rows("stream_destination", from.stream_destination_offset,
                                              from.stream_destination, from.streams, ranks);
            }
            to.turn_total = from.turn_bytes;
            if (from.volumes) {
                require(from.volume_count == to.flows || from.volume_count == 1, "volumes: not one for each flow, or one");
                check_amounts("volumes", from.volumes, from.volume_count, false);
                to.volumes.assign(from.volumes, from.volumes + from.volume_count);
                continue;
            }
            require(from.rows >= 0 && from.rows <= MOST, "rows: a wrong count");
            require(from.rows || !to.flows, "rows: there are none, and no volumes");
            require(from.row_flow || from.rows == to.flows, "rows: not one for each flow");
            if (from.row_flow) check_numbers("row_flow", from.row_flow, from.rows, to.flows);
            check_amounts("chunk_bytes", from.chunk_bytes, from.chunk_count, false);
            for (int64_t row = 0; row < from.rows; row++)
                require(from.modulus[row] >= 1 && from.chunks[row] >= 1 && from.chunks[row] <= from.modulus[row] &&
                            from.base[row] >= 0 && from.base[row] + from.modulus[row] <= from.chunk_count,
                        at("rows", row) + " carries chunks that are not there");
            to.rows.count = from.rows, to.rows.base = from.base, to.rows.offset = from.offset;
            to.rows.stride = from.stride, to.rows.modulus = from.modulus, to.rows.chunks = from.chunks;
            to.rows.flow = from.row_flow, to.rows.bytes = from.chunk_bytes, to.rows.all = from.chunk_count;
        }
        made->finish();
        return new fredfw_schedule{made};
    });
}

void fredfw_schedule_free(fredfw_schedule *schedule) { delete schedule; }

fredfw_lowered *fredfw_lowered_new(const fredfw_schedule *schedule, int64_t groups, double launch, int64_t links,
                                   const fredfw_flows *phases) {
    return guard_made([&]() -> fredfw_lowered * {
        require(schedule != nullptr, "schedule: there is none");
        require(groups > 0 && groups * schedule->schedule->ranks <= MOST, "groups: a wrong count");
        require(launch >= 0 && launch < INF, "launch: accepted are finite seconds of 0 or more");
        auto made = std::make_shared<Lowered>();
        made->schedule = schedule->schedule, made->groups = groups, made->launch = launch;
        for (size_t index = 0; index < schedule->schedule->phases.size(); index++) {
            Lowered::Flows flows;
            flows.routes = checked(phases[index].routes, links);
            require(flows.routes.count == groups * schedule->schedule->phases[index].flows,
                    at("routes", (int64_t)index) + ": not one for each flow of each group");
            flows.caps = phases[index].caps, flows.open = phases[index].open;
            if (flows.caps) check_amounts("caps", flows.caps, flows.routes.count, true);
            made->phases.push_back(flows);
        }
        return new fredfw_lowered{made};
    });
}

void fredfw_lowered_free(fredfw_lowered *lowered) { delete lowered; }

// --- a network

fredfw_network *fredfw_network_new(const fredfw_setting *given) {
    return guard_made([&]() -> fredfw_network * {
        require(given->links >= 0 && given->links <= MOST && given->nodes >= 0, "links: a wrong count");
        check_amounts("bandwidth", given->bandwidth, given->links, false);
        require(given->sharing >= 0 && given->sharing <= FREDFW_FOREIGN, "sharing: no such policy");
        if (given->sharing == FREDFW_CIRCUIT_PREEMPT) {
            check_numbers("source", given->source, given->links, given->nodes);
            check_numbers("destination", given->destination, given->links, given->nodes);
        }
        const Setting setting = {given->links,      given->nodes,     given->bandwidth,
                                 given->source,     given->destination, given->is_switch,
                                 (Sharing)given->sharing, given->local != 0, given->open != 0,
                                 given->starts_streams != 0};
        return new fredfw_network(setting);
    });
}

namespace {

const uint64_t SAVED = 0x0005776664657266;  // fredfw, and the version

// What tells bytes that were cut off or changed from those that were written (FNV-1a).
uint64_t checksum(const uint8_t *bytes, size_t count) {
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t one = 0; one < count; one++) sum = (sum ^ bytes[one]) * 0x100000001b3;
    return sum;
}

}  // namespace

int64_t fredfw_save(fredfw_network *network, int64_t room, uint8_t *bytes) {
    return guard([&]() -> int64_t {
        Archive archive;
        uint64_t mark = SAVED;
        archive(mark, network->links);
        network->network.io(archive);
        uint64_t sum = checksum(archive.bytes().data(), archive.bytes().size());
        archive(sum);
        const int64_t count = (int64_t)archive.bytes().size();
        if (count <= room) std::copy(archive.bytes().begin(), archive.bytes().end(), bytes);
        return count;
    });
}

int64_t fredfw_load(fredfw_network *network, int64_t count, const uint8_t *bytes) {
    return guard([&]() -> int64_t {
        uint64_t sum = 0, mark = 0;
        require(count >= (int64_t)sizeof sum, "what was saved: it is cut off");
        const size_t rest = (size_t)count - sizeof sum;
        std::copy(bytes + rest, bytes + count, (uint8_t *)&sum);
        require(sum == checksum(bytes, rest), "what was saved: it is cut off, damaged or something else");
        Archive archive(bytes, rest);
        int64_t links = 0;
        archive(mark, links);
        require(mark == SAVED, "what was saved: it is of another version");
        require(links == network->links, "what was saved: it is of another fabric");
        network->network.io(archive);
        Archive::check(archive.at_end());
        return 0;
    });
}

void fredfw_network_free(fredfw_network *network) { delete network; }

int64_t fredfw_step(fredfw_network *network, double until, int64_t events, fredfw_notice *notice) {
    return guard([&]() -> int64_t {
        Network &net = network->network;
        switch (net.step(until, events)) {
        case Network::Step::OVER: return FREDFW_OVER;
        case Network::Step::RATES: return FREDFW_RATES;
        case Network::Step::MORE: return FREDFW_MORE;
        default: break;
        }
        return take(network, 0, notice);
    });
}

int64_t fredfw_hear(fredfw_network *network, int64_t before, fredfw_notice *notice) {
    return guard([&]() -> int64_t {
        const int64_t count = (int64_t)network->network.notices.size();
        if (before < 0) return count;
        return before < count ? take(network, before, notice) : (int64_t)FREDFW_OVER;
    });
}

double fredfw_next(fredfw_network *network) {
    return guard([&]() -> double { return network->network.next(); });
}

const double *fredfw_now(const fredfw_network *network) { return &network->network.now; }

void fredfw_pass(fredfw_network *network, double until) { network->network.pass(until); }

void fredfw_begin(fredfw_network *network) { network->network.begin_step(); }

int64_t fredfw_is_idle(fredfw_network *network) { return network->network.idle(); }

int64_t fredfw_timer(fredfw_network *network, double delay, int64_t priority) {
    return guard([&]() -> int64_t {
        require(delay >= 0 && delay < INF, "delay: accepted are finite seconds of 0 or more");
        Network &net = network->network;
        return net.calendar.push(net.now + delay, (int32_t)priority, What::TIMER);
    });
}

void fredfw_withdraw(fredfw_network *network, int64_t timer) { network->network.calendar.withdraw(timer); }

int64_t fredfw_admit(fredfw_network *network, const fredfw_cargo *given) {
    return guard([&]() -> int64_t {
        Cargo cargo;
        cargo.routes = checked(given->routes, network->links, given->flow);
        cargo.count = given->flow < 0 ? cargo.routes.count : 1;
        require(given->volumes || !cargo.count, "volumes: no array");
        check_amounts("volumes", given->volumes, cargo.count, false);
        if (given->caps)
            for (int64_t one = 0; one < cargo.count; one++)
                require(given->caps[one] >= 0, at("caps", one) + " is no rate");
        require(given->activities >= 0 && given->activities <= MOST, "activities: a wrong count");
        require(given->repeat >= 1, "repeat: a wrong count");
        require(given->first_setup >= 0 && given->first_setup < INF && given->setup >= 0 && given->setup < INF,
                "setup: accepted are finite seconds of 0 or more");
        require(given->label >= 0 && given->label <= MOST && given->priority >= 0 && given->priority <= MOST,
                "label, priority: accepted are numbers of 0 or more");
        if (given->flow >= 0) {
            cargo.members.push_back((int32_t)given->flow);
            cargo.own = std::make_shared<std::vector<double>>(1, given->volumes[0]);
            cargo.volumes = cargo.own->data(), cargo.in_order = true;
            require(!given->caps && !given->activity, "caps, activity: not of a single flow");
        } else {
            cargo.volumes = given->volumes, cargo.caps = given->caps;
        }
        if (given->activity) {
            check_numbers("activity", given->activity, cargo.count, given->activities);
            cargo.grouping = Grouping::NAMED, cargo.activity = given->activity;
        }
        cargo.activities = given->activities, cargo.repeat = given->repeat;
        cargo.first_setup = given->first_setup, cargo.setup = given->setup;
        cargo.priority = (int32_t)given->priority, cargo.label = (int32_t)given->label;
        cargo.takes_turns = given->takes_turns != 0;
        const int64_t run = given->ticket ? -1 : running(network, given->run).number;
        return network->network.admit(std::move(cargo), given->ticket, run, given->carry, given->token,
                                      given->hears_drain != 0);
    });
}

int64_t fredfw_carry_drained(fredfw_network *network, int64_t run, int64_t carry, int64_t count,
                             const int64_t *activities) {
    return guard([&]() -> int64_t {
        Run &mine = running(network, run);
        const int64_t number = mine.number;
        mine.drained(carry, std::vector<int32_t>(activities, activities + count));
        network->network.forget_if_over(number);
        return 0;
    });
}

int64_t fredfw_carry_ended(fredfw_network *network, int64_t run, int64_t carry, int64_t count,
                           const int64_t *activities) {
    return guard([&]() -> int64_t {
        Run &mine = running(network, run);
        const int64_t number = mine.number;
        mine.ended(carry, std::vector<int32_t>(activities, activities + count));
        network->network.forget_if_over(number);
        return 0;
    });
}

void fredfw_cancel(fredfw_network *network, int64_t ticket) { network->network.cancel_ticket(ticket); }

int64_t fredfw_stalled(fredfw_network *network, int64_t room, int64_t *labels) {
    return guard([&]() -> int64_t {
        Network &net = network->network;
        if (std::isnan(net.flows.first_done())) {
            Work work;
            if (!net.flows.settle(net.now, work)) return -1;
        }
        std::vector<int64_t> found;
        net.stalled(found);
        for (size_t one = 0; one < found.size() && (int64_t)one < room; one++)
            labels[one] = net.batch(found[one]).cargo.label;
        return (int64_t)found.size();
    });
}

int64_t fredfw_link_bytes(fredfw_network *network, int64_t labels, double *bytes, uint8_t *present) {
    return guard([&]() -> int64_t {
        std::vector<std::vector<double>> total;
        network->network.link_bytes(total);
        for (int64_t label = 0; label < labels && label < (int64_t)total.size(); label++) {
            present[label] = !total[label].empty();
            for (size_t link = 0; link < total[label].size(); link++)
                bytes[label * network->links + (int64_t)link] = total[label][link];
        }
        return 0;
    });
}

void fredfw_statistics(const fredfw_network *network, int64_t *counts) {
    const Statistics &one = network->network.statistics;
    const int64_t values[] = {one.events, one.batches, one.flows,      one.solves,
                              one.solved, one.passes,  one.most_passes, one.met,
                              network->network.compressed()};
    for (int64_t value : values) *counts++ = value;
}

int64_t fredfw_weigh(fredfw_network *network, int64_t label, double weight) {
    return guard([&]() -> int64_t {
        require(label >= 0 && label <= MOST && weight > 0 && weight < INF, "weight: accepted is more than 0");
        std::vector<double> &weights = network->network.weights;
        if ((int64_t)weights.size() <= label) weights.resize(label + 1, 1.0);
        weights[label] = weight;
        return 0;
    });
}

// --- links

int64_t fredfw_set_bandwidths(fredfw_network *network, const double *values) {
    return guard([&]() -> int64_t {
        check_amounts("values", values, network->links, false);
        network->network.set_bandwidths(values);
        return 0;
    });
}

int64_t fredfw_batches(const fredfw_network *network, int64_t room, int64_t *batches) {
    int64_t count = 0;
    const Network &net = network->network;
    for (int64_t one = net.first_batch(); one >= 0; one = net.batch(one).after, count++)
        if (count < room) batches[count] = one;
    return count;
}

int64_t fredfw_describe(fredfw_network *network, int64_t number, fredfw_batch *found) {
    return guard([&]() -> int64_t {
        const Network &net = network->network;
        const Batch &batch = net.batch(number);
        *found = {batch.ticket, -1, batch.carry, -1, -1, batch.cargo.label, net.crosses_closed(batch), 0, nullptr};
        if (batch.run < 0) return 0;
        Run &run = net.run_at(batch.run);
        const Carry &carry = run.carry(batch.carry);
        found->run = run.serial, found->phase = carry.phase, found->repetition = carry.repetition;
        found->count = (int64_t)carry.items.size(), found->items = carry.items.data();
        return 0;
    });
}

int64_t fredfw_reroute(fredfw_network *network, int64_t batch, const fredfw_routes *routes, int64_t *moved) {
    return guard([&]() -> int64_t {
        const Routes view = checked(*routes, network->links);
        require(view.count == network->network.batch(batch).cargo.count, "routes: not one for each flow");
        bool stranded = false;
        network->network.reroute(batch, view, *moved, stranded);
        return stranded;
    });
}

void fredfw_route_repetitions(fredfw_network *network) { network->network.yield_links(), network->network.rerouted = true; }

int64_t fredfw_go_on(fredfw_network *network, int64_t batch, int64_t count, const int64_t *activities,
                     const fredfw_routes *routes) {
    return guard([&]() -> int64_t {
        const Routes view = checked(*routes, network->links);
        require(view.count == network->network.batch(batch).cargo.count, "routes: not one for each flow");
        network->network.go_on(batch, std::vector<int32_t>(activities, activities + count), &view);
        return 0;
    });
}

int64_t fredfw_held(const fredfw_network *network, int64_t room, int64_t *labels, double *first, int64_t *times) {
    int64_t count = 0;
    for (const auto &[label, what] : network->network.held) {
        if (count < room) labels[count] = label, first[count] = what.first, times[count] = what.second;
        count++;
    }
    return count;
}

// --- task graphs

int64_t fredfw_tasks_new(fredfw_network *network, const fredfw_graph *given) {
    return guard([&]() -> int64_t {
        Network &net = network->network;
        require(!net.tasks, "tasks: there is a graph already");
        auto made = std::make_unique<Tasks>(net);
        made->by_rank = given->way >= FREDFW_BY_RANK, made->rendezvous = given->way == FREDFW_RENDEZVOUS;
        made->stepwise = given->way == FREDFW_STEPWISE;
        check_offsets("participant_offset", given->participant_offset, given->tables);
        check_numbers("participant", given->participant, given->participant_offset[given->tables], given->ranks);
        int64_t place = 0;
        for (int64_t one = 0; one < given->tables; one++) {
            Members members;
            members.participants.assign(given->participant + given->participant_offset[one],
                                        given->participant + given->participant_offset[one + 1]);
            members.groups = given->groups[one], members.size = given->group_size[one];
            const int64_t count = members.groups * members.size;
            require(members.groups >= 0 && members.size >= 1 && count <= MOST, at("groups", one) + ": a wrong count");
            members.slots = narrow("slot", given->slot + place, count, members.count());
            place += count;
            Table slots;
            slots.offset.resize(count + 1);
            for (int64_t row = 0; row <= count; row++) slots.offset[row] = (int32_t)row;
            slots.value = members.slots;
            members.groups_of = Table::turned(slots, members.count());
            members.several = count != members.count();
            made->members.push_back(std::move(members));
        }
        for (int64_t one = 0; one < given->shares; one++) {
            Share share;
            share.lowered = given->share_lowered[one]->lowered;
            const int64_t first = given->share_group_offset[one], last = given->share_group_offset[one + 1];
            require(last - first == share.lowered->groups, at("share_group", one) + ": not one for each group");
            share.served = narrow("share_group", given->share_group + first, last - first, MOST);
            made->shares.push_back(std::move(share));
        }
        check_offsets("map_offset", given->map_offset, given->maps);
        for (int64_t one = 0; one < given->maps; one++)
            made->shared.emplace_back(given->map + given->map_offset[one], given->map + given->map_offset[one + 1]);
        check_offsets("edge_offset", given->edge_offset, given->tasks);
        check_offsets("share_offset", given->share_offset, given->tasks);
        check_numbers("share", given->share, given->share_offset[given->tasks], given->shares);
        made->share_of.assign(given->share, given->share + given->share_offset[given->tasks]);
        for (int64_t one = 0; one < given->tasks; one++) {
            Task task;
            require(given->kind[one] >= 0 && given->kind[one] <= (int64_t)Kind::WAIT, at("kind", one) + " is none");
            task.kind = (Kind)given->kind[one];
            require(given->members[one] >= 0 && given->members[one] < given->tables, at("members", one) + " is no table");
            task.members = (int32_t)given->members[one], task.label = (int32_t)given->label[one];
            task.priority = (int32_t)given->priority[one], task.partner = (int32_t)given->partner[one];
            const bool is_message = task.kind == Kind::SEND || task.kind == Kind::RECEIVE;
            require(!is_message || (task.partner >= 0 && task.partner < given->tasks), at("partner", one) + " is no task");
            task.whole = given->whole[one] != 0, task.alone = given->alone[one] != 0;
            task.seconds = given->seconds[one], task.times = given->times[one];
            require(task.seconds >= 0 && task.seconds < INF, at("seconds", one) + ": accepted are finite ones of 0 or more");
            task.first_edge = given->edge_offset[one], task.last_edge = given->edge_offset[one + 1];
            task.first_share = given->share_offset[one], task.last_share = given->share_offset[one + 1];
            task.first_factor = given->factors ? given->factor_offset[one] : -1;
            made->tasks.push_back(task);
        }
        for (int64_t edge = 0; edge < given->edge_offset[given->tasks]; edge++) {
            require(given->edge_task[edge] >= 0 && given->edge_task[edge] < given->tasks, at("edge_task", edge) + " is none");
            require(given->edge_map[edge] >= -1 && given->edge_map[edge] < given->maps, at("edge_map", edge) + " is none");
            made->edges.push_back(
                {(int32_t)given->edge_task[edge], (int32_t)given->edge_map[edge], (int32_t)given->edge_count[edge]});
        }
        if (given->factors) made->factors.assign(given->factors, given->factors + given->factor_offset[given->tasks]);
        made->finish(given->ranks);
        net.tasks = std::move(made);
        return 0;
    });
}

int64_t fredfw_tasks_start(fredfw_network *network) {
    return guard([&]() -> int64_t {
        network->network.tasks->start();
        return 0;
    });
}

int64_t fredfw_streamed(fredfw_network *network, int64_t stream, int64_t count, const int64_t *groups) {
    return guard([&]() -> int64_t {
        require(network->network.tasks->knows_stream(stream), "stream: there is none of this name");
        network->network.tasks->streamed(stream, std::vector<int32_t>(groups, groups + count));
        return 0;
    });
}

void fredfw_tasks_count(const fredfw_network *network, int64_t *counts) {
    const Tasks &tasks = *network->network.tasks;
    counts[0] = (int64_t)tasks.spans.task.size(), counts[1] = (int64_t)tasks.spans.ranks.size();
    counts[2] = (int64_t)tasks.compared.size(), counts[3] = tasks.done;
}

void fredfw_tasks_record(const fredfw_network *network, const fredfw_record *record) {
    const Tasks &tasks = *network->network.tasks;
    const auto copy = [](const auto &from, auto *to) { std::copy(from.begin(), from.end(), to); };
    copy(tasks.spans.task, record->task), copy(tasks.spans.start, record->start), copy(tasks.spans.end, record->end);
    copy(tasks.spans.trigger, record->trigger), copy(tasks.spans.offset, record->rank_offset);
    copy(tasks.spans.ranks, record->rank), copy(tasks.ended, record->ended);
    for (size_t one = 0; one < tasks.compared.size(); one++) {
        record->compared_task[one] = tasks.compared[one].task, record->compared_share[one] = tasks.compared[one].share;
        record->compared_began[one] = tasks.compared[one].began, record->compared_ended[one] = tasks.compared[one].ended;
    }
}

int64_t fredfw_tasks_waiting(fredfw_network *network, int64_t task, int64_t *slots) {
    return guard([&]() -> int64_t {
        const std::vector<int32_t> found = network->network.tasks->waiting((int32_t)task);
        std::copy(found.begin(), found.end(), slots);
        return (int64_t)found.size();
    });
}

int64_t fredfw_errand(const fredfw_network *network, int64_t name, int64_t *task, int64_t *share, int64_t room,
                      int64_t *groups) {
    const Run *run = network->network.find_run(name);
    if (!run || run->errand.task < 0) return -1;
    *task = run->errand.task, *share = run->errand.share;
    for (int64_t one = 0; one < (int64_t)run->errand.groups.size() && one < room; one++)
        groups[one] = run->errand.groups[one];
    return (int64_t)run->errand.groups.size();
}

// --- rates that the caller knows

void fredfw_count_flows(const fredfw_network *network, int64_t *counts) {
    const Flows &flows = network->network.flows;
    counts[0] = flows.active, counts[1] = 0, counts[2] = !flows.coefficient.empty(), counts[3] = flows.changes;
    for (int64_t slot = 0; slot < flows.slots(); slot++)
        if (flows.draining[slot]) counts[1] += flows.length[slot];
}

void fredfw_list_flows(const fredfw_network *network, const fredfw_columns *columns) {
    const Network &net = network->network;
    const Flows &flows = net.flows;
    int64_t number = 0, pair = 0;
    if (columns->offset) columns->offset[0] = 0;
    for (int64_t slot = 0; slot < flows.slots(); slot++) {
        if (!flows.draining[slot]) continue;
        const Batch &batch = net.batch(flows.batch[slot]);
        if (columns->link)
            for (int32_t one = 0; one < flows.length[slot]; one++, pair++) {
                const int64_t from = flows.start[slot] + one;
                columns->link[pair] = flows.link[from];
                if (columns->coefficient) columns->coefficient[pair] = flows.coefficient[from];
            }
        if (columns->offset) columns->offset[number + 1] = pair;
        if (columns->cap) columns->cap[number] = flows.cap[slot];
        if (columns->priority) columns->priority[number] = flows.priority[slot];
        if (columns->label) columns->label[number] = batch.cargo.label;
        if (columns->name) columns->name[number] = flows.name[slot];
        if (columns->birth) columns->birth[number] = flows.birth[slot];
        if (columns->size) columns->size[number] = flows.bytes[slot];
        if (columns->left) columns->left[number] = flows.left(slot, net.now);
        if (columns->latency) columns->latency[number] = batch.routes().latency[batch.route(flows.member[slot])];
        number++;
    }
}

int64_t fredfw_assign(fredfw_network *network, int64_t count, const double *rates, double until) {
    return guard([&]() -> int64_t {
        Network &net = network->network;
        require(count == net.flows.active, "rates: not one for each flow that drains");
        for (int64_t one = 0; one < count; one++) require(rates[one] >= 0, at("rates", one) + " is no rate");
        net.flows.assign(net.now, rates);
        net.held_until = until;
        return 0;
    });
}

// --- schedules that run

int64_t fredfw_run_new(fredfw_network *network, const fredfw_lowered *lowered, int64_t label, int64_t priority, int64_t way,
                       int64_t times, int64_t tells_through) {
    return guard([&]() -> int64_t {
        require(label >= 0 && label <= MOST && priority >= 0 && priority <= MOST && times >= 1,
                "label, priority, times: accepted are numbers of 0 or more");
        require(way >= FREDFW_COMPRESSED && way <= FREDFW_RENDEZVOUS, "way: no such way to run a schedule");
        Network &net = network->network;
        if (way >= FREDFW_BY_RANK)
            return net.add(rank_run(net, lowered->lowered, {}, (int32_t)label, (int32_t)priority,
                                    way == FREDFW_RENDEZVOUS, tells_through != 0));
        return net.add(
            phase_run(net, lowered->lowered, {}, (int32_t)label, (int32_t)priority, way == FREDFW_STEPWISE, times));
    });
}

int64_t fredfw_run_start(fredfw_network *network, int64_t run) {
    return guard([&]() -> int64_t {
        running(network, run).start();
        return 0;
    });
}

int64_t fredfw_run_enter(fredfw_network *network, int64_t run, int64_t count, const int64_t *nodes, const int64_t *marks) {
    return guard([&]() -> int64_t {
        Run &mine = running(network, run);
        const int64_t limit = mine.lowered().groups * mine.lowered().schedule->ranks;
        std::vector<int32_t> theirs = narrow("marks", marks, count, MOST);
        mine.enter(narrow("nodes", nodes, count, limit), std::move(theirs));
        return 0;
    });
}

void fredfw_run_cancel(fredfw_network *network, int64_t run) {
    Run *mine = network->network.find_run(run);
    if (!mine) return;
    const int64_t number = mine->number;
    mine->cancel();
    network->network.forget_if_over(number);
}
