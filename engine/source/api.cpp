// The border: what comes in is checked here, and nothing is thrown across it.
#include <algorithm>
#include <atomic>
#include <new>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include "fredfw.h"
#include "program.hpp"
#include "run.hpp"
#include "tasks.hpp"

using namespace fredfw;

struct fredfw_network {
    explicit fredfw_network(const fredfw_setting &setting)
        : network(setting), links(setting.links), nodes(setting.nodes) {}
    Network network;
    int64_t links, nodes;
    Notice notice;  // that the caller looks at
    mutable std::atomic<bool> is_busy{false};
    mutable bool is_broken = false;  // a call ended half-way
};

namespace {

thread_local std::string told;
const int64_t MOST = INT32_MAX;  // flows, groups and phases are numbered by 32 bits
const int64_t MOST_REPEATS = (int64_t)1 << 53;  // doubles count so far
// Amounts beyond are no bytes or seconds of anything, and products of two of them are numbers still.
const double MOST_AMOUNT = 1e150;
const int64_t MOST_LABELS = 1 << 24;

struct Refused {
    std::string what;
};

// What is wrong is put together only where something is.
#define require(holds, ...) \
    do {                    \
        if (!(holds)) throw Refused{joined(__VA_ARGS__)}; \
    } while (false)

std::string shown(const std::string &value) { return value; }
std::string shown(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}
template <class Whole, class = std::enable_if_t<std::is_integral_v<Whole>>> std::string shown(Whole value) {
    return std::to_string(value);
}

template <class... Parts> std::string joined(const Parts &...parts) { return (std::string() + ... + shown(parts)); }

std::string at(const char *what, int64_t row) { return joined(what, "[", row, "]"); }

// Do something; what it throws becomes a number, and nothing becomes 0.
template <class Function> auto guard(Function function, bool *is_broken = nullptr) noexcept {
    using Given = decltype(function());
    using Result = std::conditional_t<std::is_void_v<Given>, int64_t, Given>;
    const auto failed = [&](const char *what, int64_t result) {
        told = what;
        if (is_broken) *is_broken = true;
        return (Result)result;
    };
    try {
        if constexpr (!std::is_void_v<Given>) return function();
        else function();
        return (Result)0;
    } catch (const Refused &refused) {
        told = refused.what;
        return (Result)FREDFW_REFUSED;
    } catch (const std::bad_alloc &) {
        return failed("there is not enough memory", FREDFW_NO_MEMORY);
    } catch (const std::length_error &) {
        return failed("there is not enough memory", FREDFW_NO_MEMORY);
    } catch (const std::exception &error) {
        return failed(error.what(), FREDFW_REFUSED);
    }
}

template <class Function> auto guard_made(Function function) noexcept -> decltype(function()) {
    decltype(function()) made = nullptr;
    guard([&] { made = function(); });
    return made;
}

// Do something with a network: one call at a time, and none after one that ended half-way.
template <class Any, class Function> auto with(Any *network, Function function) noexcept {
    using Result = decltype(guard(function));
    if (!network || network->is_broken || network->is_busy.exchange(true, std::memory_order_acquire)) {
        told = !network             ? "network: there is none"
               : network->is_broken ? "network: it is broken, because there was not enough memory"
                                    : "network: it is in use, by another thread or by the one that was forked";
        return (Result)FREDFW_REFUSED;
    }
    const Result result = guard(function, &network->is_broken);
    network->is_busy.store(false, std::memory_order_release);
    return result;
}

template <class Function> void within(const char *what, int64_t row, Function function, const char *join = ".") {
    try {
        function();
    } catch (const Refused &refused) {
        throw Refused{at(what, row) + join + refused.what};
    }
}

double memory() {
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGESIZE)
    const double pages = (double)sysconf(_SC_PHYS_PAGES), size = (double)sysconf(_SC_PAGESIZE);
    if (pages > 0 && size > 0) return pages * size;
#endif
    return (double)SIZE_MAX / 2;
}

// Refuse what there is no memory for, before there is any of it.
void check_room(const char *what, double count, double each) {
    if (count * each < 1e8) return;
    const double room = memory();
    require(count * each <= room, what, ": ", (int64_t)count, " need at least ", (int64_t)(count * each),
            " bytes, and the machine has ", (int64_t)room);
}

void check_number(const std::string &what, int64_t value, int64_t least, int64_t most) {
    require(value >= least && value <= most, what, " is ", value, ", accepted are ", least, " to ", most);
}

void check_count(const char *what, int64_t value, int64_t least = 0, int64_t most = MOST) {
    if (value < least || value > most) check_number(what, value, least, most);
}

void check_array(const char *what, const void *values, int64_t count) {
    require(values || count <= 0, what, ": no array");
}

void check_numbers(const char *what, const int64_t *values, int64_t count, int64_t limit) {
    check_count(what, count);
    check_room(what, (double)count, sizeof *values);
    check_array(what, values, count);
    for (int64_t one = 0; one < count; one++)
        if (values[one] < 0 || values[one] >= limit) check_number(at(what, one), values[one], 0, limit - 1);
}

void check_offsets(const char *what, const int64_t *offset, int64_t rows, int64_t values) {
    check_array(what, offset, rows + 1);
    require(offset[0] == 0, at(what, 0), " is ", offset[0], ": offsets begin at 0");
    for (int64_t row = 0; row < rows; row++)
        require(offset[row + 1] >= offset[row], at(what, row + 1), ": offsets do not fall");
    require(offset[rows] == values,
            at(what, rows), " is ", offset[rows], ", accepted is ", values, ", where the values end");
}

void check_amount(const std::string &what, double value) {
    require(value >= 0 && value <= MOST_AMOUNT, what, " is ", value, ", accepted are 0 to ", MOST_AMOUNT);
}

void check_amounts(const char *what, const double *values, int64_t count) {
    check_array(what, values, count);
    for (int64_t one = 0; one < count; one++)
        if (!(values[one] >= 0 && values[one] <= MOST_AMOUNT)) check_amount(at(what, one), values[one]);
}

void check_factors(const char *what, const double *values, int64_t count) {
    for (int64_t one = 0; one < count; one++)
        require(values[one] >= 1 / MOST_AMOUNT && values[one] <= MOST_AMOUNT,
                at(what, one), " is ", values[one], ", accepted is more than 0, and at most ", MOST_AMOUNT);
}

// Rates that may be infinite, for none.
void check_rates(const char *what, const double *values, int64_t count) {
    for (int64_t one = 0; one < count; one++)
        require(values[one] >= 0, at(what, one), " is ", values[one], ", which is no rate");
}

void check_time(const char *what, double value, double least) {
    require(value >= least && value < INF, what, " is ", value, ", accepted are finite seconds of ", least, " or more");
}

void check_routes(const fredfw_routes &routes, int64_t links, int64_t flow = -1) {
    check_count("count", routes.count), check_count("pairs", routes.pairs);
    check_array("offset", routes.offset, 1), check_array("latency", routes.latency, routes.count);
    if (flow < 0) {
        check_offsets("offset", routes.offset, routes.count, routes.pairs);
        check_numbers("link", routes.link, routes.pairs, links);
        check_amounts("latency", routes.latency, routes.count);
        if (routes.coefficient) check_factors("coefficient", routes.coefficient, routes.pairs);
    } else {
        check_count("flow", flow, 0, routes.count - 1);
        check_number(at("offset", routes.count), routes.offset[routes.count], routes.pairs, routes.pairs);
        const int64_t first = routes.offset[flow], last = routes.offset[flow + 1];
        require(first >= 0 && last >= first && last <= routes.pairs, at("offset", flow), ": offsets do not fall");
        check_array("link", routes.link, last - first);
        for (int64_t pair = first; pair < last; pair++)
            if (routes.link[pair] < 0 || routes.link[pair] >= links)
                check_number(at("link", pair), routes.link[pair], 0, links - 1);
        check_amount("latency", routes.latency[flow]);
        if (routes.coefficient) check_factors("coefficient", routes.coefficient + first, last - first);
    }
}

std::vector<int32_t> narrow(const char *what, const int64_t *values, int64_t count, int64_t limit) {
    check_numbers(what, values, count, limit);
    return std::vector<int32_t>(values, values + count);
}

// Ranks at an end of each stream, of which there is one at least.
void check_ends(const char *offsets, const int64_t *offset, const char *what, const int64_t *value, int64_t streams,
                int64_t count, int64_t ranks) {
    check_count(what, count);
    check_offsets(offsets, offset, streams, count);
    for (int64_t one = 0; one < streams; one++)
        require(offset[one + 1] > offset[one], at(offsets, one), ": a stream without a rank");
    check_numbers(what, value, count, ranks);
}

void check_phase(const fredfw_phase &phase, int64_t index, const std::vector<Phase> &all, int64_t ranks) {
    check_count("repeat", phase.repeat, 1);
    check_count("channel", phase.channel, -1), check_count("turn", phase.turn, -1, index);
    const Phase *const first = phase.channel < 0 || phase.turn < 0 ? nullptr : &all[phase.turn];
    require(first ? first->channel == phase.channel && first->turn == phase.turn : phase.channel < 0 && phase.turn < 0,
            "turn is ", phase.turn, ", which is no first phase of its channel");
    check_numbers("after", phase.after, phase.after_count, index);
    check_numbers("behind", phase.behind, phase.behind_count, index);
    check_numbers("room", phase.room, phase.room_count, index);
    check_numbers("source", phase.source, phase.unicasts, ranks);
    check_numbers("destination", phase.destination, phase.unicasts, ranks);
    check_count("streams", phase.streams, 0, MOST - phase.unicasts);
    const int64_t flows = phase.unicasts + phase.streams;
    if (phase.streams) {
        check_ends("stream_source_offset", phase.stream_source_offset, "stream_source", phase.stream_source, phase.streams,
                   phase.stream_sources, ranks);
        check_ends("stream_destination_offset", phase.stream_destination_offset, "stream_destination",
                   phase.stream_destination, phase.streams, phase.stream_destinations, ranks);
    }
    check_amount("turn_bytes", phase.turn_bytes);
    if (phase.volumes) {
        require(phase.volume_count == flows || phase.volume_count == 1,
                "volume_count is ", phase.volume_count, ", accepted are 1 and ", flows);
        check_amounts("volumes", phase.volumes, phase.volume_count);
        return;
    }
    check_count("rows", phase.rows, flows ? 1 : 0), check_count("chunk_count", phase.chunk_count);
    require(phase.row_flow || phase.rows == flows, "rows is ", phase.rows, ", and there are ", flows, " flows");
    if (phase.row_flow) check_numbers("row_flow", phase.row_flow, phase.rows, flows);
    check_amounts("chunk_bytes", phase.chunk_bytes, phase.chunk_count);
    for (const auto &[name, column] :
         {std::pair<const char *, const int64_t *>{"base", phase.base}, {"offset", phase.offset},
          {"stride", phase.stride}, {"modulus", phase.modulus}, {"chunks", phase.chunks}})
        check_array(name, column, phase.rows);
    for (int64_t row = 0; row < phase.rows; row++) {
        check_number(at("modulus", row), phase.modulus[row], 1, phase.chunk_count);
        check_number(at("base", row), phase.base[row], 0, phase.chunk_count - phase.modulus[row]);
        check_number(at("chunks", row), phase.chunks[row], 1, phase.modulus[row]);
        check_number(at("offset", row), phase.offset[row], -MOST, MOST);
        check_number(at("stride", row), phase.stride[row], -MOST, MOST);
    }
}

void finish(Schedule &schedule) {
    check_count("ranks", schedule.ranks, 1);
    for (size_t index = 0; index < schedule.phases.size(); index++)
        within("phases", (int64_t)index,
               [&] { check_phase(schedule.phases[index], (int64_t)index, schedule.phases, schedule.ranks); });
    schedule.finish();
}

void check_lowered(const Lowered &lowered) {
    check_count("groups", lowered.groups, 1, MOST / lowered.schedule->ranks), check_count("links", lowered.links);
    check_amount("launch", lowered.launch);
    const std::vector<Phase> &phases = lowered.schedule->phases;
    check_count("phase_count", (int64_t)lowered.phases.size(), (int64_t)phases.size(), (int64_t)phases.size());
    for (size_t index = 0; index < phases.size(); index++)
        within("phases", (int64_t)index, [&] {
            const fredfw_flows &flows = lowered.phases[index];
            const int64_t count = lowered.groups * phases[index].flows;
            check_routes(flows.routes, lowered.links);
            check_count("count", flows.routes.count, count, count);
            if (flows.caps) check_rates("caps", flows.caps, count);
        });
}

Run &running(fredfw_network *network, int64_t name, bool from_outside = false) {
    Run *run = network->network.find_run(name);
    require(run != nullptr, "run ", name, " is over, or never was");
    require(!from_outside || !run->is_of_task(), "run ", name, " is that of a task");
    return *run;
}

Carry &asked(Run &run, int64_t number) {
    const Carry::Asked asked = run.knows_carry(number) ? run.carry(number).asked : Carry::Asked::NOT;
    require(asked == Carry::Asked::WAITS || asked == Carry::Asked::TOLD,
            "carry ", number, " is none that was asked about");
    return run.carry(number);
}

const Batch &known_batch(const fredfw_network *network, int64_t number) {
    require(network->network.knows_batch(number), "batch ", number, " is over, or never was");
    return network->network.batch(number);
}

Tasks &tasks_of(const fredfw_network *network) {
    require(network->network.tasks != nullptr, "tasks: there is no graph");
    return *network->network.tasks;
}

int64_t take(fredfw_network *network, int64_t place, fredfw_notice *notice) {
    check_array("notice", notice, 1);
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
        check_count("flows", flows), check_count("links", links);
        check_array("offset", offset, 1), check_array("capacity", capacity, links), check_array("rates", rates, flows);
        check_count("offset", offset[flows]);
        check_offsets("offset", offset, flows, offset[flows]);
        check_numbers("link", link, offset[flows], links);
        if (coefficient) check_factors("coefficient", coefficient, offset[flows]);
        check_amounts("capacity", capacity, links), check_rates("rates", rates, flows);
        return max_min(flows, links, offset, link, coefficient, capacity, rates);
    });
}

// --- schedules

fredfw_schedule *fredfw_schedule_new(int64_t ranks, int64_t count, const fredfw_phase *phases, int64_t flags) {
    return guard_made([&]() -> fredfw_schedule * {
        check_count("phases", count);
        check_room("phases", (double)count, sizeof(Phase) + 4 * sizeof(std::vector<int32_t>));
        check_array("phases", phases, count);
        auto made = std::make_shared<Schedule>();
        made->ranks = ranks, made->flags = flags;
        made->phases.resize(count);
        for (int64_t index = 0; index < count; index++) static_cast<fredfw_phase &>(made->phases[index]) = phases[index];
        finish(*made);
        return new fredfw_schedule{made};
    });
}

void fredfw_schedule_free(fredfw_schedule *schedule) { delete schedule; }

fredfw_lowered *fredfw_lowered_new(const fredfw_schedule *schedule, int64_t groups, double launch, int64_t links,
                                   int64_t count, const fredfw_flows *phases) {
    return guard_made([&]() -> fredfw_lowered * {
        require(schedule != nullptr, "schedule: there is none");
        const auto wanted = (int64_t)schedule->schedule->phases.size();
        check_count("phase_count", count, wanted, wanted), check_array("phases", phases, count);
        auto made = std::make_shared<Lowered>();
        made->schedule = schedule->schedule, made->groups = groups, made->launch = launch, made->links = links;
        made->phases.assign(phases, phases + count);
        check_lowered(*made);
        return new fredfw_lowered{made};
    });
}

void fredfw_lowered_free(fredfw_lowered *lowered) { delete lowered; }

// --- a network

fredfw_network *fredfw_network_new(const fredfw_setting *given) {
    return guard_made([&]() -> fredfw_network * {
        require(given != nullptr, "setting: there is none");
        check_count("links", given->links), check_count("nodes", given->nodes);
        check_room("links", (double)given->links, 100);
        check_amounts("bandwidth", given->bandwidth, given->links);
        check_count("sharing", given->sharing, 0, FREDFW_FOREIGN);
        if (given->sharing == FREDFW_CIRCUIT_PREEMPT) {
            check_numbers("source", given->source, given->links, given->nodes);
            check_numbers("destination", given->destination, given->links, given->nodes);
            check_array("is_switch", given->is_switch, given->nodes);
        }
        return new fredfw_network(*given);
    });
}

namespace {

const uint64_t SAVED = 0x0009776664657266;  // fredfw, and the version

// What must be the same where something is saved and where it is read.
std::vector<int64_t> setting_of(const fredfw_network *network) {
    const Network &net = network->network;
    return {network->links, network->nodes, net.flows.sharing(), net.open, net.local, net.starts_streams};
}

// What tells bytes that were cut off or changed from those that were written (FNV-1a).
uint64_t checksum(const uint8_t *bytes, size_t count) {
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t one = 0; one < count; one++) sum = (sum ^ bytes[one]) * 0x100000001b3;
    return sum;
}

}  // namespace

int64_t fredfw_save(fredfw_network *network, int64_t room, uint8_t *bytes) {
    return with(network, [&]() -> int64_t {
        require(!network->network.tasks, "tasks: a network is not saved while a task graph runs on it");
        check_array("bytes", bytes, room);
        Archive archive;
        uint64_t mark = SAVED;
        std::vector<int64_t> setting = setting_of(network);
        archive(mark, setting);
        network->network.io(archive);
        uint64_t sum = checksum(archive.bytes().data(), archive.bytes().size());
        archive(sum);
        const int64_t count = (int64_t)archive.bytes().size();
        if (count <= room) std::copy(archive.bytes().begin(), archive.bytes().end(), bytes);
        return count;
    });
}

int64_t fredfw_load(fredfw_network *network, int64_t count, const uint8_t *bytes) {
    return with(network, [&] {
        uint64_t sum = 0, mark = 0;
        Network &net = network->network;
        require(net.is_new(), "network: it has done something already");
        require(count >= (int64_t)sizeof sum && bytes, "what was saved: it is cut off");
        const size_t rest = (size_t)count - sizeof sum;
        std::copy(bytes + rest, bytes + count, (uint8_t *)&sum);
        require(sum == checksum(bytes, rest), "what was saved: it is cut off, damaged or something else");
        Archive archive(bytes, rest);
        std::vector<int64_t> setting;
        archive(mark);
        require(mark == SAVED, "what was saved: it is of another version");
        archive(setting);
        require(setting == setting_of(network), "what was saved: it is of another fabric");
        net.io(archive);
        Archive::check(archive.at_end());
    });
}

void fredfw_network_free(fredfw_network *network) { delete network; }

int64_t fredfw_step(fredfw_network *network, double until, int64_t events, fredfw_notice *notice) {
    return with(network, [&]() -> int64_t {
        Network &net = network->network;
        check_array("notice", notice, 1);
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
    return with(network, [&]() -> int64_t {
        const int64_t count = (int64_t)network->network.notices.size();
        if (before < 0) return count;
        return before < count ? take(network, before, notice) : (int64_t)FREDFW_OVER;
    });
}

double fredfw_next(fredfw_network *network) {
    return with(network, [&]() -> double { return network->network.next(); });
}

const double *fredfw_now(const fredfw_network *network) { return &network->network.now; }

int64_t fredfw_pass(fredfw_network *network, double until) {
    return with(network, [&] {
        check_time("until", until, network->network.now);
        network->network.pass(until);
    });
}

int64_t fredfw_begin(fredfw_network *network) {
    return with(network, [&] { network->network.begin_step(); });
}

int64_t fredfw_is_idle(fredfw_network *network) {
    return with(network, [&]() -> int64_t { return network->network.idle(); });
}

int64_t fredfw_timer(fredfw_network *network, double delay, int64_t priority) {
    return with(network, [&]() -> int64_t {
        check_time("delay", delay, 0);
        check_number("priority", priority, -MOST, MOST);
        Network &net = network->network;
        return net.calendar.push(net.now + delay, (int32_t)priority, What::TIMER);
    });
}

int64_t fredfw_withdraw(fredfw_network *network, int64_t timer) {
    return with(network, [&] { network->network.withdraw(timer); });
}

int64_t fredfw_admit(fredfw_network *network, const fredfw_cargo *given) {
    return with(network, [&]() -> int64_t {
        require(given != nullptr, "cargo: there is none");
        Cargo cargo;
        check_count("flow", given->flow, -1);
        check_routes(given->routes, network->links, given->flow);
        cargo.routes = given->routes;
        cargo.count = given->flow < 0 ? cargo.routes.count : 1;
        check_amounts("volumes", given->volumes, cargo.count);
        if (given->caps) check_rates("caps", given->caps, cargo.count);
        check_count("activities", given->activities), check_count("repeat", given->repeat, 1, MOST_REPEATS);
        check_amount("first_setup", given->first_setup), check_amount("setup", given->setup);
        check_count("label", given->label, 0, MOST_LABELS - 1), check_count("priority", given->priority);
        if (given->flow >= 0) {
            require(!given->caps && !given->activity, "caps, activity: not of a single flow");
            cargo.members.push_back((int32_t)given->flow);
            cargo.own = std::make_shared<std::vector<double>>(1, given->volumes[0]);
            cargo.volumes = cargo.own->data(), cargo.in_order = true;
        } else {
            cargo.volumes = given->volumes, cargo.caps = given->caps;
        }
        require(given->activity || given->activities > 0 || !cargo.count, "activities is 0, and there are flows");
        if (given->activity) check_numbers("activity", given->activity, cargo.count, given->activities);
        cargo.activity = given->activity, cargo.block = std::max<int64_t>(cargo.count, 1);
        check_room("activities", (double)given->activities, 12);
        cargo.activities = given->activities, cargo.repeat = given->repeat;
        cargo.first_setup = given->first_setup, cargo.setup = given->setup;
        cargo.priority = (int32_t)given->priority, cargo.label = (int32_t)given->label;
        cargo.takes_turns = given->takes_turns != 0;
        if (given->ticket)
            return network->network.admit(std::move(cargo), given->ticket, -1, 0, given->token, given->hears_drain != 0);
        Run &run = running(network, given->run);
        Carry &carry = asked(run, given->carry);
        require(carry.asked == Carry::Asked::WAITS, "carry ", given->carry, ": others were let in for it");
        check_count("activities", given->activities, (int64_t)carry.items.size(), (int64_t)carry.items.size());
        if (run.is_by_rank()) check_count("repeat", given->repeat, 1, 1);
        carry.asked = Carry::Asked::LET_IN;
        return network->network.admit(std::move(cargo), 0, run.number, given->carry, given->token, given->hears_drain != 0);
    });
}

int64_t fredfw_tell(fredfw_network *network, int64_t run, int64_t number, int64_t has_ended, int64_t count,
                    const int64_t *activities) {
    return with(network, [&] {
        Run &mine = running(network, run);
        Carry &carry = asked(mine, number);
        const std::vector<int32_t> given = narrow("activities", activities, count, (int64_t)carry.items.size());
        std::vector<int32_t> fresh;  // of which it is new
        std::vector<uint8_t> told = carry.told;
        told.resize(carry.items.size(), 0);
        for (size_t one = 0; one < given.size(); one++) {
            uint8_t &known = told[given[one]];
            require(known < 2, at("activities", (int64_t)one), " is ", given[one], ", which has ended");
            if (has_ended || !known) fresh.push_back(given[one]);
            known = has_ended ? 2 : 1;
        }
        carry.told.swap(told);
        carry.asked = Carry::Asked::TOLD;
        const int64_t place = mine.number;
        has_ended ? mine.ended(number, fresh) : mine.drained(number, fresh);
        network->network.forget_if_over(place);
    });
}

int64_t fredfw_cancel(fredfw_network *network, int64_t ticket) {
    return with(network, [&] { network->network.cancel(ticket, -1); });
}

int64_t fredfw_stalled(fredfw_network *network, int64_t room, int64_t *labels) {
    return with(network, [&]() -> int64_t {
        check_array("labels", labels, room);
        Network &net = network->network;
        if (!net.settle()) return -1;
        std::vector<int64_t> found;
        net.stalled(found);
        for (size_t one = 0; one < found.size() && (int64_t)one < room; one++)
            labels[one] = net.batch(found[one]).cargo.label;
        return (int64_t)found.size();
    });
}

int64_t fredfw_link_bytes(fredfw_network *network, int64_t labels, double *bytes, uint8_t *present) {
    return with(network, [&] {
        check_array("bytes", bytes, labels), check_array("present", present, labels);
        const Network::LinkBytes total = network->network.link_bytes();
        for (int64_t label = 0; label < labels && label < (int64_t)total.size(); label++) {
            present[label] = !total[label].empty();
            for (size_t link = 0; link < total[label].size(); link++)
                bytes[label * network->links + (int64_t)link] = total[label][link];
        }
    });
}

int64_t fredfw_statistics(const fredfw_network *network, int64_t *counts) {
    return with(network, [&] {
        check_array("counts", counts, 1);
        const Statistics &one = network->network.statistics;
        const int64_t values[] = {one.events, one.batches, one.flows,      one.solves,
                                  one.solved, one.passes,  one.most_passes, one.met,
                                  network->network.compressed()};
        std::copy(std::begin(values), std::end(values), counts);
    });
}

int64_t fredfw_weigh(fredfw_network *network, int64_t label, double weight) {
    return with(network, [&] {
        check_count("label", label, 0, MOST_LABELS - 1);
        check_factors("weight", &weight, 1);
        std::vector<double> &weights = network->network.weights;
        if ((int64_t)weights.size() <= label) weights.resize(label + 1, 1.0);
        weights[label] = weight;
    });
}

// --- links

int64_t fredfw_set_bandwidths(fredfw_network *network, const double *values) {
    return with(network, [&] {
        check_amounts("values", values, network->links);
        network->network.set_bandwidths(values);
    });
}

int64_t fredfw_batches(const fredfw_network *network, int64_t room, int64_t *batches) {
    return with(network, [&]() -> int64_t {
        check_array("batches", batches, room);
        int64_t count = 0;
        const Network &net = network->network;
        for (int64_t one = net.first_batch(); one >= 0; one = net.batch(one).after, count++)
            if (count < room) batches[count] = one;
        return count;
    });
}

int64_t fredfw_describe(fredfw_network *network, int64_t number, fredfw_batch *found) {
    return with(network, [&] {
        const Network &net = network->network;
        const Batch &batch = known_batch(network, number);
        check_array("found", found, 1);
        *found = {batch.ticket, -1, batch.carry, -1, -1, batch.cargo.label, net.crosses_closed(batch), 0, nullptr};
        if (batch.run < 0) return;
        Run &run = net.run_at(batch.run);
        const Carry &carry = run.carry(batch.carry);
        found->run = run.serial, found->phase = carry.phase, found->repetition = carry.repetition;
        found->count = (int64_t)carry.items.size(), found->items = carry.items.data();
    });
}

int64_t fredfw_reroute(fredfw_network *network, int64_t batch, const fredfw_routes *routes, int64_t *moved) {
    return with(network, [&]() -> int64_t {
        const int64_t flows = known_batch(network, batch).cargo.count;
        check_array("routes", routes, 1), check_array("moved", moved, 1);
        check_routes(*routes, network->links);
        check_count("count", routes->count, flows, flows);
        bool stranded = false;
        network->network.reroute(batch, *routes, *moved, stranded);
        return stranded;
    });
}

int64_t fredfw_route_repetitions(fredfw_network *network) {
    return with(network, [&] {
        network->network.yield_links();
        network->network.rerouted = true;
    });
}

int64_t fredfw_go_on(fredfw_network *network, int64_t batch, int64_t count, const int64_t *activities,
                     const fredfw_routes *routes) {
    return with(network, [&] {
        const Batch &mine = known_batch(network, batch);
        check_array("routes", routes, 1);
        check_routes(*routes, network->links);
        check_count("count", routes->count, mine.cargo.count, mine.cargo.count);
        const std::vector<int32_t> given = narrow("activities", activities, count, mine.cargo.activities);
        std::vector<uint8_t> asked = mine.laps ? mine.laps->asked : std::vector<uint8_t>();
        asked.resize(mine.cargo.activities, 0);
        for (size_t one = 0; one < given.size(); one++) {
            require(asked[given[one]],
                    at("activities", (int64_t)one), " is ", given[one], ", of which nobody has asked where it goes");
            asked[given[one]] = 0;
        }
        if (!given.empty()) network->network.go_on(batch, given, routes);
    });
}

int64_t fredfw_held(const fredfw_network *network, int64_t room, int64_t *labels, double *first, int64_t *times) {
    return with(network, [&]() -> int64_t {
        check_array("labels", labels, room), check_array("first", first, room), check_array("times", times, room);
        int64_t count = 0;
        for (const auto &[label, what] : network->network.held) {
            if (count < room) labels[count] = label, first[count] = what.first, times[count] = what.second;
            count++;
        }
        return count;
    });
}

// --- task graphs

namespace {

void add_tables(Tasks &made, const fredfw_graph &graph) {
    check_offsets("participant_offset", graph.participant_offset, graph.tables, graph.participants);
    check_numbers("participant", graph.participant, graph.participants, graph.ranks);
    check_array("groups", graph.groups, graph.tables), check_array("group_size", graph.group_size, graph.tables);
    check_array("slot", graph.slot, graph.slots);
    int64_t place = 0;
    for (int64_t one = 0; one < graph.tables; one++) {
        Members members;
        const int64_t first = graph.participant_offset[one], last = graph.participant_offset[one + 1];
        members.participants.assign(graph.participant + first, graph.participant + last);
        for (int64_t slot = first + 1; slot < last; slot++)
            require(graph.participant[slot - 1] < graph.participant[slot],
                    at("participant", slot), ": ranks do not rise");
        members.groups = graph.groups[one], members.size = graph.group_size[one];
        check_number(at("group_size", one), members.size, 1, MOST);
        check_number(at("groups", one), members.groups, 0, (graph.slots - place) / members.size);
        const int64_t count = members.groups * members.size;
        for (int64_t slot = place; slot < place + count; slot++)
            check_number(at("slot", slot), graph.slot[slot], 0, members.count() - 1);
        members.slots.assign(graph.slot + place, graph.slot + place + count);
        place += count;
        Table slots;
        for (const int32_t &slot : members.slots) slots.add(&slot, &slot + 1);
        members.groups_of = Table::turned(slots, members.count());
        made.members.push_back(std::move(members));
    }
    check_count("slots", graph.slots, place, place);
}

void add_shares(Tasks &made, const fredfw_graph &graph, int64_t links) {
    check_offsets("share_group_offset", graph.share_group_offset, graph.shares, graph.share_groups);
    check_numbers("share_group", graph.share_group, graph.share_groups, MOST);
    check_array("share_lowered", graph.share_lowered, graph.shares);
    for (int64_t one = 0; one < graph.shares; one++) {
        Share share;
        require(graph.share_lowered[one] != nullptr, at("share_lowered", one), ": there is none");
        share.lowered = graph.share_lowered[one]->lowered;
        require(share.lowered->links <= links, at("share_lowered", one), " is for a fabric with more links");
        const int64_t first = graph.share_group_offset[one], last = graph.share_group_offset[one + 1];
        require(last - first == share.lowered->groups, at("share_group_offset", one + 1), ": not one for each group");
        share.served.assign(graph.share_group + first, graph.share_group + last);
        made.shares.push_back(std::move(share));
    }
}

// Each group of a communication has one share, whose schedule is for as many ranks as take part.
void check_shares(const Tasks &made, const fredfw_graph &graph, int64_t task) {
    const Kind kind = (Kind)graph.kind[task];
    const bool is_send = kind == Kind::SEND, has_shares = is_send || kind == Kind::COLLECTIVE || kind == Kind::TRANSFER;
    const int64_t first = graph.share_offset[task], last = graph.share_offset[task + 1];
    require(has_shares || first == last, at("share_offset", task + 1), ": a task that has no shares");
    const Members &members = made.members[graph.members[task]];
    const int64_t groups = is_send ? 1 : members.groups, ranks = is_send ? 2 : members.size;
    std::vector<uint8_t> seen(has_shares ? groups : 0, 0);
    for (int64_t one = first; one < last; one++) {
        const Share &share = made.shares[graph.share[one]];
        require(share.lowered->schedule->ranks == ranks, at("share", one), " is for another number of ranks");
        for (size_t place = 0; place < share.served.size(); place++) {
            const int32_t group = share.served[place];
            const std::string what = at("share_group", graph.share_group_offset[graph.share[one]] + (int64_t)place);
            check_number(what, group, 0, groups - 1);
            require(!seen[group], what, " is ", group, ", which has another share");
            seen[group] = 1;
        }
    }
    for (size_t group = 0; group < seen.size(); group++)
        require(seen[group], at("share_offset", task), ": nothing for group ", group, " of the task");
}

void check_tasks(const Tasks &made, const fredfw_graph &graph) {
    check_offsets("edge_offset", graph.edge_offset, graph.tasks, graph.edges);
    check_offsets("share_offset", graph.share_offset, graph.tasks, graph.task_shares);
    check_numbers("share", graph.share, graph.task_shares, graph.shares);
    if (graph.factors) {
        check_offsets("factor_offset", graph.factor_offset, graph.tasks, graph.factor_count);
        check_amounts("factors", graph.factors, graph.factor_count);
    }
    for (const auto &[name, column] :
         {std::pair<const char *, const int64_t *>{"kind", graph.kind}, {"members", graph.members}, {"label", graph.label},
          {"priority", graph.priority}, {"partner", graph.partner}, {"whole", graph.whole}, {"times", graph.times}})
        check_array(name, column, graph.tasks);
    check_amounts("seconds", graph.seconds, graph.tasks);
    for (int64_t one = 0; one < graph.tasks; one++) {
        check_number(at("kind", one), graph.kind[one], 0, (int64_t)Kind::WAIT);
        check_number(at("members", one), graph.members[one], 0, graph.tables - 1);
        check_number(at("label", one), graph.label[one], 0, MOST_LABELS - 1);
        check_number(at("priority", one), graph.priority[one], 0, MOST);
        check_number(at("times", one), graph.times[one], 1, MOST);
    }
    for (int64_t one = 0; one < graph.tasks; one++) {
        const Kind kind = (Kind)graph.kind[one];
        const bool is_message = kind == Kind::SEND || kind == Kind::RECEIVE;
        if (is_message) {
            const int64_t partner = graph.partner[one];
            check_number(at("partner", one), partner, 0, graph.tasks - 1);
            const int64_t other = (int64_t)(kind == Kind::SEND ? Kind::RECEIVE : Kind::SEND);
            require(graph.kind[partner] == other && graph.partner[partner] == one,
                    at("partner", one), " is ", partner, ", which is not the other end of it");
        }
        const bool by_itself = is_message || kind == Kind::WAIT;
        const bool enters = graph.way >= FREDFW_BY_RANK && (kind == Kind::COLLECTIVE || kind == Kind::TRANSFER);
        require(by_itself ? graph.whole[one] : !(enters && graph.whole[one]),
                at("whole", one), " is ", graph.whole[one], ", which a task of this kind is not");
        require(!graph.factors || kind != Kind::COMPUTE ||
                    graph.factor_offset[one + 1] - graph.factor_offset[one] == made.members[graph.members[one]].count(),
                at("factor_offset", one + 1), ": not a factor for each participant");
        check_shares(made, graph, one);
    }
}

void check_edges(const Tasks &made, const fredfw_graph &graph) {
    check_offsets("map_offset", graph.map_offset, graph.maps, graph.map_slots);
    check_array("map", graph.map, graph.map_slots);
    for (int64_t one = 0; one < graph.map_slots; one++) check_number(at("map", one), graph.map[one], -1, MOST);
    std::vector<int64_t> most(graph.maps, -1), common(graph.maps, 0);
    for (int64_t one = 0; one < graph.maps; one++)
        for (int64_t slot = graph.map_offset[one]; slot < graph.map_offset[one + 1]; slot++)
            most[one] = std::max(most[one], graph.map[slot]), common[one] += graph.map[slot] >= 0;
    check_array("edge_task", graph.edge_task, graph.edges), check_array("edge_map", graph.edge_map, graph.edges);
    check_array("edge_count", graph.edge_count, graph.edges);
    for (int64_t task = 0; task < graph.tasks; task++)
        for (int64_t edge = graph.edge_offset[task]; edge < graph.edge_offset[task + 1]; edge++) {
            const int64_t after = graph.edge_task[edge], map = graph.edge_map[edge];
            check_number(at("edge_task", edge), after, 0, graph.tasks - 1);
            check_number(at("edge_map", edge), map, -1, graph.maps - 1);
            const int64_t mine = made.members[graph.members[task]].count(), theirs = made.members[graph.members[after]].count();
            const int64_t slots = map < 0 ? theirs : graph.map_offset[map + 1] - graph.map_offset[map];
            require(slots == mine && (map < 0 || most[map] < theirs),
                    at("edge_map", edge), " is ", map, ", which is for other participants");
            const int64_t count = map < 0 ? mine : common[map];
            check_number(at("edge_count", edge), graph.edge_count[edge], count, count);
        }
}

std::unique_ptr<Tasks> checked(fredfw_network *network, const fredfw_graph &graph) {
    check_count("ranks", graph.ranks), check_room("ranks", (double)graph.ranks, 700);  // an empty queue has a block
    check_count("way", graph.way, FREDFW_COMPRESSED, FREDFW_RENDEZVOUS);
    check_count("tables", graph.tables), check_count("participants", graph.participants), check_count("slots", graph.slots);
    check_count("tasks", graph.tasks), check_count("edges", graph.edges);
    check_count("maps", graph.maps), check_count("map_slots", graph.map_slots), check_count("shares", graph.shares);
    check_count("share_groups", graph.share_groups), check_count("task_shares", graph.task_shares);
    check_count("factor_count", graph.factor_count);
    check_room("tables", (double)graph.tables, sizeof(Members));
    check_room("tasks", (double)graph.tasks, 32), check_room("edges", (double)graph.edges, 8);
    check_room("slots", (double)graph.slots, 12), check_room("maps", (double)graph.maps, 16);
    auto made = std::make_unique<Tasks>(network->network, graph);
    add_tables(*made, graph), add_shares(*made, graph, network->links);
    check_tasks(*made, graph), check_edges(*made, graph);
    return made;
}

}  // namespace

int64_t fredfw_tasks_start(fredfw_network *network, const fredfw_graph *given) {
    return with(network, [&] {
        Network &net = network->network;
        require(!net.tasks, "tasks: there is a graph already");
        require(given != nullptr, "graph: there is none");
        net.tasks = checked(network, *given);
        net.tasks->start();
    });
}

int64_t fredfw_streamed(fredfw_network *network, int64_t stream, int64_t count, const int64_t *groups) {
    return with(network, [&] {
        Tasks &tasks = tasks_of(network);
        require(tasks.knows_stream(stream), "stream ", stream, " is over, or never was");
        const std::vector<int32_t> given = narrow("groups", groups, count, MOST);
        std::set<int32_t> seen;
        for (size_t one = 0; one < given.size(); one++)
            require(tasks.awaits(stream, given[one]) && seen.insert(given[one]).second,
                    at("groups", (int64_t)one), " is ", given[one], ", which is none that waits");
        if (!given.empty()) tasks.streamed(stream, given);
    });
}

int64_t fredfw_tasks_count(const fredfw_network *network, int64_t *counts) {
    return with(network, [&] {
        const Tasks &tasks = tasks_of(network);
        check_array("counts", counts, 1);
        counts[0] = (int64_t)tasks.spans.task.size(), counts[1] = (int64_t)tasks.spans.ranks.size();
        counts[2] = (int64_t)tasks.compared.size(), counts[3] = tasks.done;
    });
}

int64_t fredfw_tasks_record(const fredfw_network *network, const fredfw_record *record) {
    return with(network, [&] {
        const Tasks &tasks = tasks_of(network);
        check_array("record", record, 1);
        const auto copy = [](const auto &from, auto *to) { std::copy(from.begin(), from.end(), to); };
        copy(tasks.spans.task, record->task), copy(tasks.spans.start, record->start), copy(tasks.spans.end, record->end);
        copy(tasks.spans.trigger, record->trigger), copy(tasks.spans.offset, record->rank_offset);
        copy(tasks.spans.ranks, record->rank), copy(tasks.ended, record->ended);
        for (size_t one = 0; one < tasks.compared.size(); one++) {
            record->compared_task[one] = tasks.compared[one].task, record->compared_share[one] = tasks.compared[one].share;
            record->compared_began[one] = tasks.compared[one].began, record->compared_ended[one] = tasks.compared[one].ended;
        }
    });
}

int64_t fredfw_errand(const fredfw_network *network, int64_t name, int64_t *task, int64_t *share, int64_t room,
                      int64_t *groups) {
    return with(network, [&]() -> int64_t {
        const Run *run = network->network.find_run(name);
        if (!run || !run->is_of_task()) return -1;
        check_array("task", task, 1), check_array("share", share, 1), check_array("groups", groups, room);
        *task = run->errand.task, *share = run->errand.share;
        for (int64_t one = 0; one < (int64_t)run->errand.groups.size() && one < room; one++)
            groups[one] = run->errand.groups[one];
        return (int64_t)run->errand.groups.size();
    });
}

// --- programs in files

namespace {

const uint64_t PROGRAM = 0x7270776664657266;  // fredfwpr, the least byte first
const int64_t PROGRAM_VERSION = 1;

struct Head {
    uint64_t mark;
    int64_t version, bytes;  // of all that is there
    uint64_t sum;            // of what comes after it
};

struct OwnProgram : StoredProgram {
    std::deque<fredfw_lowered> made;
    std::vector<const fredfw_lowered *> shares;
};

// A network that starts nothing, of a program that was not checked yet.
std::unique_ptr<fredfw_network> network_of(const fredfw_program &program) {
    auto network = std::unique_ptr<fredfw_network>(fredfw_network_new(&program.setting));
    require(network != nullptr, "setting: ", told);
    for (int64_t label = 0; program.weight && label < program.labels; label++)
        require(fredfw_weigh(network.get(), label, program.weight[label]) == 0, at("weight", label), ": ", told);
    return network;
}

void check_program(const fredfw_program &program) {
    check_number("sharing", program.setting.sharing, FREDFW_MAX_MIN, FREDFW_CIRCUIT_PREEMPT);
    require(program.setting.open, "open is 0, and a program in a file has nobody to ask");
    check_count("labels", program.labels, 0, MOST_LABELS);
    const auto network = network_of(program);
    // Each rank is on an NPU, and each NPU is a node, so that none of these is more than there is in a file.
    check_array("is_switch", program.setting.is_switch, program.setting.nodes);
    check_count("npus", program.npus, 0, program.setting.nodes), check_count("ranks", program.graph.ranks, 0, program.npus);
    const auto tasks = checked(network.get(), program.graph);
    check_array("task", program.task, program.graph.tasks), check_array("label", program.label, program.labels);
    for (int64_t task = 0; task < program.graph.tasks; task++) {
        const Kind kind = (Kind)program.graph.kind[task];
        require(kind != Kind::LOAD && kind != Kind::STORE,
                at("kind", task), " is a load or a store, which a program in a file has nobody to serve");
        check_array(at("task", task).c_str(), program.task[task], 1);
        check_number(at("label", task), program.graph.label[task], 0, program.labels - 1);
    }
    for (int64_t label = 0; label < program.labels; label++) check_array(at("label", label).c_str(), program.label[label], 1);
    if (program.routes.count) {
        const int64_t pairs = program.npus * program.npus;
        check_count("routes", program.routes.count, pairs, pairs);
        check_routes(program.routes, program.setting.links);
    }
}

}  // namespace

int64_t fredfw_program_write(const fredfw_program *program, int64_t room, uint8_t *bytes) {
    return guard([&]() -> int64_t {
        require(program != nullptr, "program: there is none");
        check_array("bytes", bytes, room);
        check_program(*program);
        Archive archive;
        Head head = {PROGRAM, PROGRAM_VERSION, 0, 0};
        StoredProgram(*program).io(archive);
        const std::vector<uint8_t> &rest = archive.bytes();
        head.bytes = (int64_t)(sizeof head + rest.size()), head.sum = checksum(rest.data(), rest.size());
        if (head.bytes <= room) {
            std::memcpy(bytes, &head, sizeof head);
            std::copy(rest.begin(), rest.end(), bytes + sizeof head);
        }
        return head.bytes;
    });
}

const fredfw_program *fredfw_program_read(int64_t count, const uint8_t *bytes) {
    return guard_made([&]() -> const fredfw_program * {
        Head head;
        check_count("count", count, 0, INT64_MAX), check_array("bytes", bytes, count);
        const size_t common = std::min((size_t)count, sizeof head.mark);
        require(common && !std::memcmp(&PROGRAM, bytes, common),
                "program: it is not one that fredfw export-program has written");
        const auto require_whole = [&](size_t needed) {
            require((size_t)count >= needed, "program: it is cut off, after ", count, " of at least ", needed, " bytes");
        };
        require_whole(sizeof head);
        std::memcpy(&head, bytes, sizeof head);
        require(head.version == PROGRAM_VERSION, "program: it is of version ", head.version,
                ", and this engine reads version ", PROGRAM_VERSION, ": export it again");
        require(head.bytes >= (int64_t)sizeof head && count <= head.bytes,
                "program: more follows after the ", head.bytes, " bytes that it has");
        require_whole((size_t)head.bytes);
        const uint8_t *const rest = bytes + sizeof head;
        const size_t left = (size_t)count - sizeof head;
        require(head.sum == checksum(rest, left), "program: it is damaged, as its checksum tells");
        auto made = std::make_unique<OwnProgram>();
        try {
            Archive archive(rest, left);
            made->io(archive);
            Archive::check(archive.at_end());
        } catch (const std::runtime_error &) {
            throw Refused{"program: its counts are not those of what it holds"};
        }
        const int64_t schedules = (int64_t)made->schedules.size(), lowered = (int64_t)made->lowered.size();
        for (int64_t one = 0; one < schedules; one++)
            within("schedules", one, [&] { finish(*made->schedules[one]); }, ": ");
        for (int64_t one = 0; one < lowered; one++) {
            check_number(at("lowered", one), made->schedule_of[one], 0, schedules - 1);
            made->lowered[one]->schedule = made->schedules[made->schedule_of[one]];
            within("lowered", one, [&] { check_lowered(*made->lowered[one]); }, ": ");
            made->made.push_back({made->lowered[one]});
        }
        check_count("shares", made->graph.shares, (int64_t)made->lowered_of.size(), (int64_t)made->lowered_of.size());
        check_numbers("lowered", made->lowered_of.data(), made->graph.shares, lowered);
        for (const int64_t one : made->lowered_of) made->shares.push_back(&made->made[one]);
        made->graph.share_lowered = made->shares.data();
        check_program(*made);
        return made.release();
    });
}

void fredfw_program_free(const fredfw_program *program) { delete static_cast<const OwnProgram *>(program); }

fredfw_network *fredfw_program_network(const fredfw_program *program) {
    return guard_made([&]() -> fredfw_network * {
        require(program != nullptr, "program: there is none");
        return network_of(*program).release();
    });
}

// --- rates that the caller knows

int64_t fredfw_count_flows(const fredfw_network *network, int64_t *counts) {
    return with(network, [&] {
        check_array("counts", counts, 1);
        const Flows &flows = network->network.flows;
        counts[0] = flows.active, counts[1] = 0, counts[2] = !flows.coefficient.empty(), counts[3] = flows.changes;
        flows.each_live([&](int32_t slot) { counts[1] += flows.length[slot]; });
    });
}

int64_t fredfw_list_flows(const fredfw_network *network, const fredfw_columns *columns) {
    return with(network, [&] {
        check_array("columns", columns, 1);
        const Network &net = network->network;
        const Flows &flows = net.flows;
        int64_t number = 0, pair = 0;
        if (columns->offset) columns->offset[0] = 0;
        flows.each_live([&](int32_t slot) {
            const Batch &batch = net.batch(flows.batch[slot]);
            if (columns->link)
                for (int32_t one = 0; one < flows.length[slot]; one++, pair++) {
                    const int64_t from = flows.start[slot] + one;
                    columns->link[pair] = flows.link[from];
                    if (columns->coefficient)
                        columns->coefficient[pair] = flows.coefficient.empty() ? 1.0 : flows.coefficient[from];
                }
            if (columns->offset) columns->offset[number + 1] = pair;
            if (columns->cap) columns->cap[number] = flows.cap[slot];
            if (columns->priority) columns->priority[number] = flows.priority[slot];
            if (columns->label) columns->label[number] = batch.cargo.label;
            if (columns->name && net.foreign) columns->name[number] = flows.name[slot];
            if (columns->birth && net.foreign) columns->birth[number] = flows.birth[slot];
            if (columns->size) columns->size[number] = flows.bytes[slot];
            if (columns->left) columns->left[number] = flows.left(slot, net.now);
            if (columns->latency) columns->latency[number] = batch.routes().latency[batch.route(flows.member[slot])];
            number++;
        });
    });
}

int64_t fredfw_assign(fredfw_network *network, int64_t count, const double *rates, double until) {
    return with(network, [&] {
        Network &net = network->network;
        require(net.foreign, "rates: the engine knows them itself");
        check_count("count", count, net.flows.active, net.flows.active);
        check_amounts("rates", rates, count);
        require(until >= net.now, "until is ", until, ", which is past");
        net.flows.assign(net.now, rates);
        net.held_until = until;
    });
}

// --- schedules that run

int64_t fredfw_run_new(fredfw_network *network, const fredfw_lowered *lowered, int64_t label, int64_t priority, int64_t way,
                       int64_t times) {
    return with(network, [&]() -> int64_t {
        require(lowered != nullptr, "lowered: there is none");
        require(lowered->lowered->links <= network->links, "lowered: it is for a fabric with more links");
        check_count("label", label, 0, MOST_LABELS - 1), check_count("priority", priority), check_count("times", times, 1);
        check_count("way", way, FREDFW_COMPRESSED, FREDFW_RENDEZVOUS);
        const Schedule &schedule = *lowered->lowered->schedule;
        const double groups = (double)lowered->lowered->groups, phases = (double)schedule.phases.size();
        if (way >= FREDFW_BY_RANK) check_room("ranks", groups * (double)schedule.ranks, 60);
        else check_room("groups", groups, 16 + 13 * (schedule.channels.empty() ? 0.0 : phases));
        Network &net = network->network;
        return net.add(made_run({net, lowered->lowered, {}, (int32_t)label, (int32_t)priority}, way, times));
    });
}

int64_t fredfw_run_start(fredfw_network *network, int64_t run) {
    return with(network, [&] {
        Run &mine = running(network, run, true);
        require(!mine.has_started, "run ", run, " has started already");
        mine.has_started = true;
        mine.start();
    });
}

int64_t fredfw_run_cancel(fredfw_network *network, int64_t run) {
    return with(network, [&] {
        if (!network->network.find_run(run)) return;
        Run &mine = running(network, run, true);
        const int64_t number = mine.number;
        mine.cancel();
        network->network.forget_if_over(number);
    });
}
