// What a network is, as bytes: an object is written and read by one function that names its parts.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fredfw {

// Arrays of somebody else that were read, and belong to what was read then.
using Arena = std::vector<std::shared_ptr<void>>;

class Archive;

// Whether a type says itself what it is made of; others are copied as they are.
template <class T, class = void> struct HasParts : std::false_type {};
template <class T> struct HasParts<T, std::void_t<decltype(std::declval<T &>().io(std::declval<Archive &>()))>> : std::true_type {};

class Archive {
  public:
    Archive() = default;  // to write
    Archive(const uint8_t *bytes, size_t count) : from_(bytes), left_(count), reads_(true) {}

    bool reads() const { return reads_; }
    bool at_end() const { return !left_; }
    const std::vector<uint8_t> &bytes() const { return to_; }
    std::shared_ptr<Arena> arena = std::make_shared<Arena>();

    template <class... Parts> void operator()(Parts &...parts) { (part(parts), ...); }

    // One that an array may be as long as, and one more.
    void count(int64_t &value) {
        part(value);
        check(value >= 0 && value < INT32_MAX);
    }

    // An array of somebody else that is as long as it must be, or none.
    template <class T> void column(const T *&values, int64_t count) {
        int64_t number = values ? 0 : -1, found = count;
        std::pair<const void *, size_t> bytes(values, (size_t)count * sizeof(T));
        if (!reads_ && values && count) {
            const auto known = arrays_.find(bytes);
            number = known == arrays_.end() ? (int64_t)arrays_.size() : known->second;
        }
        part(number), part(found);
        if (number < 0) {
            values = nullptr;
            return;
        }
        check(found == count);
        if (!reads_) {
            if (!count || arrays_.emplace(bytes, number).second) put(values, (size_t)count * sizeof(T));
            return;
        }
        if (count && number < (int64_t)read_.size()) {
            bytes = read_[number];
            check((size_t)count == bytes.second / sizeof(T) && bytes.second % sizeof(T) == 0);
            values = (const T *)bytes.first;
            return;
        }
        check((size_t)count <= left_ / sizeof(T));
        auto block = std::shared_ptr<std::vector<T>>(new std::vector<T>((size_t)count + 1));
        get(block->data(), (size_t)count * sizeof(T));
        values = block->data();
        arena->push_back(block);
        if (count) read_.emplace_back(values, (size_t)count * sizeof(T));
    }

    // Parts, of which each takes so many bytes at least.
    template <class Parts> void each(Parts &parts, size_t least = 1) {
        const int64_t count = size_of(parts.size(), least);
        if (reads_) parts.clear(), parts.resize((size_t)count);
        for (auto &one : parts) part(one);
    }

    // How many things there are, each of so many bytes at least.
    int64_t size_of(size_t size, size_t least = 1) {
        int64_t count = (int64_t)size;
        part(count);
        check(count >= 0 && (!reads_ || (size_t)count <= left_ / least));
        return count;
    }

    static void check(bool holds) {
        if (!holds) throw std::runtime_error("what was saved is cut off, or is something else");
    }

  private:
    std::vector<uint8_t> to_;
    const uint8_t *from_ = nullptr;
    size_t left_ = 0;
    bool reads_ = false;
    std::map<std::pair<const void *, size_t>, int64_t> arrays_;  // by where they are, and their bytes
    std::unordered_map<const void *, int64_t> shared_;
    std::vector<std::pair<const void *, size_t>> read_;
    std::vector<std::shared_ptr<void>> shared_read_;

    void put(const void *bytes, size_t count) {
        const size_t end = to_.size();
        to_.resize(end + count);
        if (count) std::memcpy(to_.data() + end, bytes, count);
    }

    void get(void *bytes, size_t count) {
        check(count <= left_);
        if (count) std::memcpy(bytes, from_, count);
        from_ += count, left_ -= count;
    }

    template <class T> void part(T &one) {
        if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            reads_ ? get(&one, sizeof(T)) : put(&one, sizeof(T));
        } else if constexpr (HasParts<T>::value) {
            one.io(*this);
        } else {
            io(*this, one);
        }
    }

    template <class T> void part(std::vector<T> &values) {
        if constexpr (std::is_trivially_copyable_v<T> && !HasParts<T>::value) {
            const int64_t count = size_of(values.size(), sizeof(T));
            if (reads_) values.resize((size_t)count);
            reads_ ? get(values.data(), (size_t)count * sizeof(T)) : put(values.data(), (size_t)count * sizeof(T));
        } else {
            each(values);
        }
    }

    template <class T> void part(std::deque<T> &values) { each(values); }

    template <class A, class B> void part(std::pair<A, B> &both) { (*this)(both.first, both.second); }

    template <class K, class V> void part(std::map<K, V> &map) { listed<std::pair<K, V>>(map); }
    template <class K, class V> void part(std::unordered_map<K, V> &map) { listed<std::pair<K, V>>(map); }
    template <class T> void part(std::set<T> &values) { listed<T>(values); }
    template <class T> void part(std::unordered_set<T> &values) { listed<T>(values); }

    template <class Item, class Group> void listed(Group &group) {
        std::vector<Item> items(group.begin(), group.end());
        part(items);
        if (reads_) group = Group(items.begin(), items.end());
    }

    template <class T> void part(std::unique_ptr<T> &one) {
        bool there = one != nullptr;
        part(there);
        if (!there) return one.reset();
        if (reads_) one = std::make_unique<T>();
        part(*one);
    }

    template <class T> void part(std::shared_ptr<T> &one) {
        using Plain = std::remove_const_t<T>;
        int64_t number = -1;
        if (!reads_ && one) {
            const auto found = shared_.find(one.get());
            number = found == shared_.end() ? (int64_t)shared_.size() : found->second;
        }
        part(number);
        if (number < 0) return one.reset();
        if (!reads_) {
            if (shared_.emplace(one.get(), number).second) part(const_cast<Plain &>(*one));
            return;
        }
        if (number < (int64_t)shared_read_.size()) {
            one = std::static_pointer_cast<T>(shared_read_[number]);
            return;
        }
        check(number == (int64_t)shared_read_.size());
        auto made = std::make_shared<Plain>();
        shared_read_.push_back(made);
        part(*made);
        one = made;
    }
};

}  // namespace fredfw
