// A program as bytes: its setting, its schedules in groups, its task graph, and the names of both.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "schedule.hpp"

namespace fredfw {

// What is written and read: a program whose shares have numbers instead of addresses. Its arrays are the caller's where it
// is written, and its own where it was read; nobody has checked these yet.
struct StoredProgram : fredfw_program {
    std::vector<std::shared_ptr<Schedule>> schedules;
    std::vector<std::shared_ptr<Lowered>> lowered;
    std::vector<int64_t> schedule_of, lowered_of;  // of what was lowered, and of shares
    std::deque<std::string> names;
    std::vector<const char *> labels_, tasks_;
    std::shared_ptr<Arena> arena;

    StoredProgram() : fredfw_program() {}
    explicit StoredProgram(const fredfw_program &given);
    void io(Archive &archive);
};

}  // namespace fredfw
