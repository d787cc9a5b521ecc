#include "run.hpp"

#include "tasks.hpp"

namespace fredfw {

void Run::drop_carry(int64_t number) {
    Carry &one = carries_[number];
    one.items.clear(), one.repetitions.clear(), one.told.clear();
    one.asked = Carry::Asked::NOT;
    carries_.leave(number);
}

void Run::let_in(int64_t number, bool asks, bool hears_drain) {
    if (!asks) {
        const fredfw_flows &flows = lowered_->phases[carries_[number].phase];
        Cargo made = cargo(carries_[number]);
        made.routes = flows.routes, made.caps = flows.caps;
        made.label = label, made.priority = priority;
        bool meets_closed = false;
        if (network_.closed)
            for (int64_t flow = 0; flow < made.count && !meets_closed; flow++)
                meets_closed = network_.crosses_closed(made.routes, made.place(flow));
        if (!meets_closed) {
            network_.admit(std::move(made), 0, this->number, number, 0, hears_drain);
            return;
        }
    }
    Carry &one = carries_[number];
    one.asked = Carry::Asked::WAITS;
    network_.notify(FREDFW_ASK, serial, number, one.items).others = {one.phase, one.repetition, hears_drain};
}

void Run::make_channels(const std::map<int32_t, std::vector<int32_t>> &phases, bool whole, bool rendezvous) {
    channels_.clear(), channel_of_.assign(schedule_.phases.size(), -1);
    for (const auto &one : phases) {
        for (int32_t phase : one.second) channel_of_[phase] = (int32_t)channels_.size();
        channels_.emplace_back(schedule_, one.second, groups_, whole, rendezvous);
    }
}

void Run::choose_later(int32_t channel, const std::vector<int32_t> &nodes) {  // all that ends now must be known before
    if (channels_[channel].note(nodes)) network_.later(*this, What::CHOOSES, 0.0, CHANNELS, channel);
}

void Run::cancel() {
    network_.cancel(0, number);
    network_.unsay({FREDFW_ASK, FREDFW_RUN_ENDED}, serial);
    is_over = true;
}

void Run::notify_ended(const std::vector<int32_t> &groups) {
    if (is_of_task()) return network_.tasks->run_ended(*this, groups);
    network_.notify(FREDFW_RUN_ENDED, serial, 0, groups);
}

void save_run(Archive &archive, Network &network, std::unique_ptr<Run> &run) {
    bool there = run != nullptr, by_rank = there && run->is_by_rank();
    archive(there);
    if (!there) return;
    std::shared_ptr<Lowered> lowered = archive.reads() ? nullptr : run->shared();
    std::vector<int32_t> which = archive.reads() ? std::vector<int32_t>() : run->which();
    archive(by_rank, lowered, which);
    if (archive.reads()) run = made_run({network, lowered, which, 0, 0}, by_rank ? FREDFW_BY_RANK : FREDFW_COMPRESSED, 1);
    run->io(archive);
}

}  // namespace fredfw
