// When may memory be freed that readers reach without a lock? After each of them has left.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace qanat::router {

// What: knows which readers are inside, and since when. Outlives its Readers. Threads: any. Errors: none;
// beyond kMostReaders at once a reader waits for another to leave.
//
// A writer first takes the thing out of the readers' sight, then calls Advance(); the thing may go once
// Oldest() has reached what that returned. All operations on shared words are sequentially consistent: either
// Oldest() sees the reader, or the reader sees that the thing is gone.
class Epochs {
 public:
  static constexpr size_t kMostReaders = 64;

  // Inside from its making to its end.
  class Reader {
   public:
    explicit Reader(Epochs& epochs);
    ~Reader() { place_->store(kNobody); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

   private:
    std::atomic<uint64_t>* place_;
  };

  // Begins a new epoch and returns its number: readers of it and later ones came after this call.
  uint64_t Advance() { return now_.fetch_add(1) + 1; }
  // The epoch of the reader who is inside longest; the largest number when none is.
  uint64_t Oldest() const;

 private:
  static constexpr uint64_t kNobody = 0;
  struct alignas(64) Place {
    std::atomic<uint64_t> epoch{kNobody};
  };

  std::atomic<uint64_t> now_{1};
  std::array<Place, kMostReaders> places_;
};

// What: things out of sight that wait for their readers. Owns them (`Owner` frees by its destructor).
// Threads: one at a time. Errors: none.
template <typename Owner>
class Limbo {
 public:
  // Takes what no new reader can reach any more.
  void Put(Owner thing, Epochs& epochs) { things_.emplace_back(epochs.Advance(), std::move(thing)); }

  // Frees what nobody can be reading.
  void Collect(const Epochs& epochs) {
    if (things_.empty()) return;
    const uint64_t oldest = epochs.Oldest();
    while (!things_.empty() && things_.front().first <= oldest) things_.pop_front();
  }
  size_t size() const { return things_.size(); }

 private:
  std::deque<std::pair<uint64_t, Owner>> things_;  // epochs ascend
};

}  // namespace qanat::router
