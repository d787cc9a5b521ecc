#include "program.hpp"

#include <unordered_map>

namespace fredfw {

void io(Archive &archive, fredfw_setting &setting) {
    archive.count(setting.links), archive.count(setting.nodes);
    archive(setting.sharing, setting.local, setting.open, setting.starts_streams);
    archive.column(setting.bandwidth, setting.links), archive.column(setting.source, setting.links);
    archive.column(setting.destination, setting.links), archive.column(setting.is_switch, setting.nodes);
}

void io(Archive &archive, fredfw_graph &graph) {
    archive(graph.ranks, graph.way);
    for (int64_t *one : {&graph.tables, &graph.participants, &graph.slots, &graph.tasks, &graph.edges, &graph.maps,
                         &graph.map_slots, &graph.shares, &graph.share_groups, &graph.task_shares, &graph.factor_count})
        archive.count(*one);
    archive.column(graph.participant_offset, graph.tables + 1), archive.column(graph.participant, graph.participants);
    archive.column(graph.groups, graph.tables), archive.column(graph.group_size, graph.tables);
    archive.column(graph.slot, graph.slots), archive.column(graph.seconds, graph.tasks);
    for (auto *one : {&graph.kind, &graph.members, &graph.label, &graph.priority, &graph.partner, &graph.whole, &graph.times})
        archive.column(*one, graph.tasks);
    for (auto *one : {&graph.edge_task, &graph.edge_map, &graph.edge_count}) archive.column(*one, graph.edges);
    for (auto *one : {&graph.edge_offset, &graph.share_offset, &graph.factor_offset}) archive.column(*one, graph.tasks + 1);
    archive.column(graph.map_offset, graph.maps + 1), archive.column(graph.map, graph.map_slots);
    archive.column(graph.share_group_offset, graph.shares + 1), archive.column(graph.share_group, graph.share_groups);
    archive.column(graph.share, graph.task_shares), archive.column(graph.factors, graph.factor_count);
}

namespace {

template <class Part, class Function>
void each(Archive &archive, std::vector<std::shared_ptr<Part>> &parts, size_t least, Function function) {
    const int64_t size = archive.size_of(parts.size(), least);
    for (int64_t one = 0; one < size; one++) {
        if (archive.reads()) parts.push_back(std::make_shared<Part>());
        function((size_t)one);
    }
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
    const auto number = [&known](auto &list, const auto &one) {
        const auto [found, is_new] = known.emplace(one.get(), (int64_t)list.size());
        if (is_new) list.push_back(one);
        return found->second;
    };
    for (int64_t share = 0; share < graph.shares; share++) {
        const std::shared_ptr<Lowered> &from = graph.share_lowered[share]->lowered;
        lowered_of.push_back(number(lowered, from));
        schedule_of.resize(lowered.size());
        schedule_of[lowered_of.back()] = number(schedules, from->schedule);
    }
}

void StoredProgram::io(Archive &archive) {
    archive(setting, graph, routes);
    archive.count(npus), archive.count(labels);
    each(archive, schedules, 3 * sizeof(int64_t), [&](size_t one) { schedules[one]->given(archive); });
    each(archive, lowered, 5 * sizeof(int64_t), [&](size_t one) {
        schedule_of.resize(lowered.size());
        archive(schedule_of[one]);
        lowered[one]->given(archive);
    });
    archive(lowered_of);
    texts(archive, label, labels, labels_, names), texts(archive, task, graph.tasks, tasks_, names);
    archive.column(weight, labels);
    if (archive.reads()) arena = archive.arena;
}

}  // namespace fredfw
