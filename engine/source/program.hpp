// A program as bytes: its setting, its schedules in groups, its task graph, and the names of both.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "schedule.hpp"

namespace fredfw {

// A schedule, and a schedule in groups, as the caller gives them.
struct GivenSchedule {
    int64_t ranks = 0, flags = 0;
    std::vector<fredfw_phase> phases;
};

struct GivenLowered {
    int64_t schedule = 0, groups = 0, links = 0;  // the number of the schedule
    double launch = 0.0;
    std::vector<fredfw_flows> phases;
};

// What is written and read: a program whose shares have numbers instead of addresses. Its arrays are the caller's where it
// is written, and its own where it was read.
struct StoredProgram : fredfw_program {
    std::vector<GivenSchedule> schedules;
    std::vector<GivenLowered> lowered;
    std::vector<int64_t> lowered_of;  // each share
    std::deque<std::string> names;
    std::vector<const char *> labels_, tasks_;
    std::shared_ptr<Arena> arena;

    StoredProgram() : fredfw_program() {}
    explicit StoredProgram(const fredfw_program &given);
    void io(Archive &archive);
};

}  // namespace fredfw
