#include "schedule.hpp"

#include <algorithm>

namespace fredfw {
namespace {

// Which of more phases come after each other is not looked for; it takes the square of their number.
const size_t MOST_PHASES = 10000;
const int64_t KEPT = 1 << 22;  // so many flows may have parties that are kept

}  // namespace

Table Table::turned(const Table &table, int64_t rows) {
    Table other;
    other.offset.assign(rows + 1, 0);
    for (int32_t value : table.value) other.offset[value + 1]++;
    for (int64_t row = 0; row < rows; row++) other.offset[row + 1] += other.offset[row];
    other.value.resize(table.value.size());
    std::vector<int32_t> place(other.offset.begin(), other.offset.end() - 1);
    for (size_t row = 0; row + 1 < table.offset.size(); row++)
        for (int32_t value : table[(int64_t)row]) other.value[place[value]++] = (int32_t)row;
    return other;
}

void io(Archive &archive, fredfw_routes &routes) {
    archive.count(routes.count), archive.count(routes.pairs);
    archive.column(routes.offset, routes.count + 1), archive.column(routes.link, routes.pairs);
    archive.column(routes.latency, routes.count), archive.column(routes.coefficient, routes.pairs);
}

void io(Archive &archive, fredfw_phase &phase) {
    archive(phase.repeat, phase.channel, phase.turn, phase.turn_bytes);
    for (int64_t *one : {&phase.after_count, &phase.behind_count, &phase.room_count, &phase.unicasts, &phase.streams,
                         &phase.stream_sources, &phase.stream_destinations, &phase.volume_count, &phase.rows,
                         &phase.chunk_count})
        archive.count(*one);
    archive.column(phase.after, phase.after_count), archive.column(phase.behind, phase.behind_count);
    archive.column(phase.room, phase.room_count);
    archive.column(phase.source, phase.unicasts), archive.column(phase.destination, phase.unicasts);
    const int64_t offsets = phase.streams ? phase.streams + 1 : 0;
    archive.column(phase.stream_source_offset, offsets), archive.column(phase.stream_destination_offset, offsets);
    archive.column(phase.stream_source, phase.stream_sources);
    archive.column(phase.stream_destination, phase.stream_destinations);
    archive.column(phase.volumes, phase.volume_count), archive.column(phase.chunk_bytes, phase.chunk_count);
    for (auto *one : {&phase.base, &phase.offset, &phase.stride, &phase.modulus, &phase.chunks, &phase.row_flow})
        archive.column(*one, phase.rows);
}

void io(Archive &archive, fredfw_flows &flows) {
    archive(flows.routes);
    archive.column(flows.caps, flows.routes.count), archive.column(flows.open, flows.routes.count);
}

void Schedule::finish() {
    const size_t count = phases.size();
    smallest_first = flags & FREDFW_SMALLEST_FIRST, keeps = !(flags & FREDFW_RELEASES_DRAINED);
    for (Phase &phase : phases) {
        const fredfw_phase &from = phase;
        phase.after.assign(from.after, from.after + from.after_count);
        phase.behind.assign(from.behind, from.behind + from.behind_count);
        phase.room.assign(from.room, from.room + from.room_count);
        phase.flows = phase.unicasts + phase.streams;
        if (phase.volumes) phase.rows = phase.chunk_count = 0;
    }
    dependents.assign(count, {}), followers.assign(count, {}), goes_on.assign(count, {}), admits.assign(count, {});
    for (size_t one = 0; one < count; one++) {
        steps += phases[one].repeat;
        for (int32_t before : phases[one].after) dependents[before].push_back((int32_t)one), goes_on[before].push_back((int32_t)one);
        if (phases[one].channel >= 0) channels[phases[one].channel].push_back((int32_t)one);
    }
    for (size_t one = 0; one < count; one++) {
        for (int32_t before : phases[one].behind) followers[before].push_back((int32_t)one), goes_on[before].push_back((int32_t)one);
        for (int32_t before : phases[one].room) dependents[before].push_back((int32_t)one), admits[before].push_back((int32_t)one);
    }
    parties_[0].resize(count), parties_[1].resize(count);
}

std::shared_ptr<const Parties> Schedule::parties(int64_t index, bool rendezvous) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    std::shared_ptr<const Parties> &known = parties_[rendezvous][index];
    if (known) return known;
    const Phase &phase = phases[index];
    auto made = std::make_shared<Parties>();
    for (int side = 0; side < 2; side++) {
        Table &table = side ? made->destinations : made->sources;
        const int64_t *alone = side ? phase.destination : phase.source;
        const int64_t *together = side ? phase.stream_destination : phase.stream_source;
        const int64_t *offset = side ? phase.stream_destination_offset : phase.stream_source_offset;
        for (int64_t flow = 0; flow < phase.unicasts; flow++) table.add(alone + flow, alone + flow + 1);
        for (int64_t stream = 0; stream < phase.streams; stream++)
            table.add(together + offset[stream], together + offset[stream + 1]);
    }
    made->sends = Table::turned(made->sources, ranks), made->receives = Table::turned(made->destinations, ranks);
    if (rendezvous) {
        for (int64_t flow = 0; flow < phase.flows; flow++) {
            std::vector<int32_t> both(made->sources[flow].begin(), made->sources[flow].end());
            both.insert(both.end(), made->destinations[flow].begin(), made->destinations[flow].end());
            std::sort(both.begin(), both.end());
            both.erase(std::unique(both.begin(), both.end()), both.end());
            made->starters.add(both.data(), both.data() + both.size());
        }
        made->starts = Table::turned(made->starters, ranks);
    } else {
        made->starters = made->sources, made->starts = made->sends;
    }
    kept_ += phase.flows;
    if (kept_ <= KEPT) known = made;
    return made;
}

double Schedule::volume(int64_t index, int64_t repetition, int64_t flow) {
    Phase &phase = phases[index];
    if (phase.uniform()) return phase.volume(flow);
    const auto row_bytes = [&](int64_t row) {
        double bytes = 0.0;
        const int64_t start = phase.offset[row] + repetition * phase.stride[row], modulus = phase.modulus[row];
        for (int64_t one = 0; one < phase.chunks[row]; one++) {
            const int64_t place = ((start + one) % modulus + modulus) % modulus;
            bytes += phase.chunk_bytes[phase.base[row] + place];
        }
        return bytes;
    };
    if (!phase.row_flow) return row_bytes(flow);
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (phase.rows_of.value.empty()) {
        Table flows;
        for (int64_t row = 0; row < phase.rows; row++) flows.add(phase.row_flow + row, phase.row_flow + row + 1);
        phase.rows_of = Table::turned(flows, phase.flows);
    }
    double bytes = 0.0;
    const Table::Row mine = phase.rows_of[flow];
    for (int32_t row : mine) bytes += row_bytes(row);
    return flow < phase.unicasts || !mine.size() ? bytes : bytes / (double)mine.size();  // rows of a stream name the same bytes
}

bool Schedule::knows_order() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (ordered_ || phases.size() > MOST_PHASES) return ordered_;
    const size_t words = (phases.size() + 63) / 64;
    before_.assign(phases.size(), std::vector<uint64_t>(words, 0));
    for (size_t one = 0; one < phases.size(); one++)
        for (const auto *waits : {&phases[one].after, &phases[one].behind})
            for (int32_t before : *waits) {
                for (size_t word = 0; word < words; word++) before_[one][word] |= before_[before][word];
                before_[one][before / 64] |= (uint64_t)1 << (before % 64);
            }
    return ordered_ = true;
}

bool Schedule::precedes(int64_t earlier, int64_t later) {
    return knows_order() && (before_[later][earlier / 64] >> (earlier % 64) & 1);
}

const std::map<int32_t, std::vector<int32_t>> &Schedule::choices() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (chosen_) return choices_;
    for (const auto &[channel, members] : channels) {
        bool in_order = knows_order();
        for (size_t one = 1; one < members.size() && in_order; one++) in_order = precedes(members[one - 1], members[one]);
        if (!in_order) choices_[channel] = members;
    }
    chosen_ = true;
    return choices_;
}

}  // namespace fredfw
