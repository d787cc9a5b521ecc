#include "program.hpp"

#include <unordered_map>

namespace fredfw {
namespace {

// One that an array may be as long as, and one more.
void count(Archive &archive, int64_t &value) {
    archive(value);
    Archive::check(value >= 0 && value < INT32_MAX);
}

// An array that is as long as it must be, or none.
template <class T> void column(Archive &archive, const T *&values, int64_t count) {
    const int64_t found = archive.array(values, count);
    Archive::check(!values || found == count);
}

void io(Archive &archive, fredfw_routes &routes) {
    count(archive, routes.count), count(archive, routes.pairs);
    column(archive, routes.offset, routes.count + 1), column(archive, routes.link, routes.pairs);
    column(archive, routes.latency, routes.count), column(archive, routes.coefficient, routes.pairs);
}

void io(Archive &archive, fredfw_phase &phase) {
    archive(phase.repeat, phase.channel, phase.turn, phase.turn_bytes);
    for (int64_t *one : {&phase.after_count, &phase.behind_count, &phase.room_count, &phase.unicasts, &phase.streams,
                         &phase.stream_sources, &phase.stream_destinations, &phase.volume_count, &phase.rows,
                         &phase.chunk_count})
        count(archive, *one);
    column(archive, phase.after, phase.after_count), column(archive, phase.behind, phase.behind_count);
    column(archive, phase.room, phase.room_count);
    column(archive, phase.source, phase.unicasts), column(archive, phase.destination, phase.unicasts);
    const int64_t offsets = phase.streams ? phase.streams + 1 : 0;
    column(archive, phase.stream_source_offset, offsets), column(archive, phase.stream_destination_offset, offsets);
    column(archive, phase.stream_source, phase.stream_sources);
    column(archive, phase.stream_destination, phase.stream_destinations);
    column(archive, phase.volumes, phase.volume_count), column(archive, phase.chunk_bytes, phase.chunk_count);
    for (auto *one : {&phase.base, &phase.offset, &phase.stride, &phase.modulus, &phase.chunks, &phase.row_flow})
        column(archive, *one, phase.rows);
}

void io(Archive &archive, fredfw_flows &flows) {
    io(archive, flows.routes);
    column(archive, flows.caps, flows.routes.count), column(archive, flows.open, flows.routes.count);
}

void io(Archive &archive, fredfw_setting &setting) {
    count(archive, setting.links), count(archive, setting.nodes);
    archive(setting.sharing, setting.local, setting.open, setting.starts_streams);
    column(archive, setting.bandwidth, setting.links), column(archive, setting.source, setting.links);
    column(archive, setting.destination, setting.links), column(archive, setting.is_switch, setting.nodes);
}

void io(Archive &archive, fredfw_graph &graph) {
    archive(graph.ranks, graph.way);
    for (int64_t *one : {&graph.tables, &graph.participants, &graph.slots, &graph.tasks, &graph.edges, &graph.maps,
                         &graph.map_slots, &graph.shares, &graph.share_groups, &graph.task_shares, &graph.factor_count})
        count(archive, *one);
    column(archive, graph.participant_offset, graph.tables + 1), column(archive, graph.participant, graph.participants);
    column(archive, graph.groups, graph.tables), column(archive, graph.group_size, graph.tables);
    column(archive, graph.slot, graph.slots), column(archive, graph.seconds, graph.tasks);
    for (auto *one : {&graph.kind, &graph.members, &graph.label, &graph.priority, &graph.partner, &graph.whole, &graph.times})
        column(archive, *one, graph.tasks);
    for (auto *one : {&graph.edge_task, &graph.edge_map, &graph.edge_count}) column(archive, *one, graph.edges);
    for (auto *one : {&graph.edge_offset, &graph.share_offset, &graph.factor_offset}) column(archive, *one, graph.tasks + 1);
    column(archive, graph.map_offset, graph.maps + 1), column(archive, graph.map, graph.map_slots);
    column(archive, graph.share_group_offset, graph.shares + 1), column(archive, graph.share_group, graph.share_groups);
    column(archive, graph.share, graph.task_shares), column(archive, graph.factors, graph.factor_count);
}

void io(Archive &archive, GivenSchedule &schedule);
void io(Archive &archive, GivenLowered &lowered);

// Parts in a list, of which each takes so many bytes at least.
template <class Part> void each(Archive &archive, std::vector<Part> &parts, size_t least) {
    const int64_t size = archive.size_of(parts.size(), least);
    if (archive.reads()) parts.resize((size_t)size);
    for (Part &part : parts) io(archive, part);
}

void io(Archive &archive, GivenSchedule &schedule) {
    archive(schedule.ranks, schedule.flags);
    each(archive, schedule.phases, sizeof(fredfw_phase));
}

void io(Archive &archive, GivenLowered &lowered) {
    archive(lowered.schedule, lowered.groups, lowered.links, lowered.launch);
    each(archive, lowered.phases, sizeof(fredfw_flows));
}

// Names, which are the caller's or its own.
void texts(Archive &archive, const char *const *&names, int64_t count, std::vector<const char *> &list,
           std::deque<std::string> &own) {
    Archive::check(archive.size_of((size_t)count, sizeof(int64_t)) == count);
    for (int64_t one = 0; one < count; one++) {
        std::vector<char> text;
        if (!archive.reads()) text.assign(names[one], names[one] + std::char_traits<char>::length(names[one]));
        archive(text);
        if (!archive.reads()) continue;
        own.emplace_back(text.begin(), text.end());
        list.push_back(own.back().c_str());
    }
    if (archive.reads()) names = list.data();
}

}  // namespace

StoredProgram::StoredProgram(const fredfw_program &given) : fredfw_program(given) {
    std::unordered_map<const void *, int64_t> known;
    for (int64_t share = 0; share < graph.shares; share++) {
        const Lowered &from = *graph.share_lowered[share]->lowered;
        const Schedule &schedule = *from.schedule;
        if (known.emplace(&schedule, (int64_t)schedules.size()).second) {
            GivenSchedule made;
            made.ranks = schedule.ranks;
            made.flags = FREDFW_SMALLEST_FIRST * schedule.smallest_first + FREDFW_RELEASES_DRAINED * !schedule.keeps;
            made.phases.assign(schedule.phases.begin(), schedule.phases.end());
            schedules.push_back(std::move(made));
        }
        if (known.emplace(&from, (int64_t)lowered.size()).second) {
            GivenLowered made;
            made.schedule = known[&schedule];
            made.groups = from.groups, made.links = from.links, made.launch = from.launch;
            for (const Lowered::Flows &flows : from.phases) {
                const Routes &routes = flows.routes;
                made.phases.push_back({{routes.count, routes.offset[routes.count], routes.offset, routes.link, routes.latency,
                                        routes.coefficient},
                                       flows.caps, flows.open});
            }
            lowered.push_back(std::move(made));
        }
        lowered_of.push_back(known[&from]);
    }
}

void StoredProgram::io(Archive &archive) {
    fredfw::io(archive, setting), fredfw::io(archive, graph), fredfw::io(archive, routes);
    count(archive, npus), count(archive, labels);
    each(archive, schedules, 3 * sizeof(int64_t)), each(archive, lowered, 5 * sizeof(int64_t));
    archive(lowered_of);
    texts(archive, label, labels, labels_, names), texts(archive, task, graph.tasks, tasks_, names);
    column(archive, weight, labels);
    if (archive.reads()) arena = archive.arena;
}

}  // namespace fredfw
