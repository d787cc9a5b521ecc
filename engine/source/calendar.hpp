// What is due: events in the order of their times; at equal times lower priority first, then first come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "archive.hpp"

namespace fredfw {

template <class Values, class Holds> void drop_if(Values &values, Holds holds) {
    values.erase(std::remove_if(values.begin(), values.end(), holds), values.end());
}

// At one moment come first the ends of all things, then channels choose and ranks enter, then flows start together.
enum Priority : int32_t { ENDS = 0, CHANNELS = 1, ENTRIES = 1, STARTS = 2 };

enum class What : int32_t {
    TIMER,          // somebody's own
    BATCH_BEGINS,   // its set-up is over
    BATCH_DRAINED,  // activities of it are
    BATCH_ENDS,     // activities of it are delivered
    // Of runs of schedules, see run.hpp.
    LAUNCHED,
    CHOOSES,
    REPORTS,
    STARTS,
    FORESEEN,
    DELIVERS,
    EMPTY,
    // Of task graphs, see tasks.hpp.
    COMPUTED,
    PASSED,
    RECEIVED,
    MESSAGE_ENTERS,
    ENTERS,
};

struct Event {
    double time;
    int64_t sequence;  // in which it became known; unique
    int32_t priority;
    What what;
    int64_t whose;   // a batch or a run
    int64_t serial;  // of that; the event is void if it has another one by then
    int64_t detail;  // a list, or a channel

    bool is_of_tasks() const { return what >= What::COMPUTED; }

    bool after(const Event &other) const {
        if (time != other.time) return time > other.time;
        if (priority != other.priority) return priority > other.priority;
        return sequence > other.sequence;
    }
};

class Calendar {
  public:
    int64_t sequence = 0;

    int64_t push(double time, int32_t priority, What what, int64_t whose = 0, int64_t serial = 0, int64_t detail = 0) {
        events_.push_back({time, ++sequence, priority, what, whose, serial, detail});
        std::push_heap(events_.begin(), events_.end(), later);
        return sequence;
    }

    bool empty() const { return events_.empty(); }
    const Event &first() const { return events_.front(); }

    Event pop() {
        std::pop_heap(events_.begin(), events_.end(), later);
        const Event one = events_.back();
        events_.pop_back();
        return one;
    }

    // Take back an event; what is behind it in the heap is looked at now and then.
    void withdraw(int64_t number) {
        withdrawn_.insert(number);
        if (withdrawn_.size() <= std::max<size_t>(64, events_.size() / 2)) return;
        drop_if(events_, [this](const Event &one) { return one.what == What::TIMER && withdrawn_.count(one.sequence) > 0; });
        std::make_heap(events_.begin(), events_.end(), later);
        withdrawn_.clear();
    }

    bool is_withdrawn(const Event &one) { return !withdrawn_.empty() && withdrawn_.erase(one.sequence) > 0; }

    void io(Archive &archive) { archive(sequence, events_, withdrawn_); }

  private:
    static constexpr auto later = [](const Event &one, const Event &other) { return one.after(other); };

    std::vector<Event> events_;
    std::unordered_set<int64_t> withdrawn_;
};

}  // namespace fredfw
