// Runs a program that `fredfw export-program` has written, and prints when each task ends: the same bits as Python.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fredfw.h>

int fail(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, fredfw_error());
    return 1;
}

int main(int count, char **arguments) {
    const char *path = count == 2 ? arguments[1] : "";
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "usage: run_program FILE\n");
        return 2;
    }
    std::ostringstream text;
    text << file.rdbuf();
    const std::string bytes = text.str();
    const fredfw_program *program = fredfw_program_read((int64_t)bytes.size(), (const uint8_t *)bytes.data());
    if (!program) return fail(path);
    fredfw_network *network = fredfw_program_network(program);
    if (!network || fredfw_tasks_start(network, &program->graph) < 0) return fail(path);

    // Nobody is asked, so a step ends where nothing more happens, or after so many events.
    fredfw_notice notice;
    int64_t what = fredfw_begin(network);
    do what = fredfw_step(network, INFINITY, 1 << 16, &notice);
    while (what == FREDFW_MORE);
    if (what != FREDFW_OVER) return fail(path);

    // Ranks of a task that were in step are one span: it has a start, an end, and those ranks.
    int64_t counts[4];
    fredfw_tasks_count(network, counts);
    const size_t spans = (size_t)counts[0], ranks = (size_t)counts[1], compared = (size_t)counts[2];
    const size_t tasks = (size_t)program->graph.tasks;
    std::vector<int64_t> task(spans), trigger(spans), offset(spans + 1), rank(ranks), ended(tasks);
    std::vector<int64_t> compared_task(compared), compared_share(compared);
    std::vector<double> start(spans), end(spans), began(compared), over(compared);
    const fredfw_record record = {task.data(), trigger.data(), offset.data(), rank.data(), start.data(), end.data(), ended.data(),
                                  compared_task.data(), compared_share.data(), began.data(), over.data()};
    if (fredfw_tasks_record(network, &record) < 0) return fail(path);
    std::vector<double> last(tasks, NAN);  // of a task that has not ended on any rank
    for (size_t span = 0; span < spans; span++) last[(size_t)task[span]] = std::fmax(last[(size_t)task[span]], end[span]);
    for (size_t one = 0; one < tasks; one++) std::printf("%.17g %s\n", last[one], program->task[one]);
    fredfw_network_free(network);
    fredfw_program_free(program);
}
