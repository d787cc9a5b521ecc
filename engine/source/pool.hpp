// Things with numbers; those of what is gone are given again. References stay.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "archive.hpp"

namespace fredfw {

template <class T> class Pool {
  public:
    T &operator[](int64_t number) { return all_[number]; }
    const T &operator[](int64_t number) const { return all_[number]; }
    int64_t size() const { return (int64_t)all_.size(); }
    std::deque<T> &all() { return all_; }

    // Returns the number of one that is as its last user has left it.
    int64_t take() {
        if (free_.empty()) {
            all_.emplace_back();
            return size() - 1;
        }
        const int64_t number = free_.back();
        free_.pop_back();
        return number;
    }

    void leave(int64_t number) { free_.push_back(number); }

    template <class Part> void io(Archive &archive, Part part) {
        const int64_t count = archive.size_of(all_.size());
        archive(free_);
        if (archive.reads()) all_.resize((size_t)count);
        for (T &one : all_) part(one);
    }
    void io(Archive &archive) { io(archive, [&](T &one) { archive(one); }); }

  private:
    std::deque<T> all_;
    std::vector<int64_t> free_;
};

}  // namespace fredfw
