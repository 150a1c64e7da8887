// Readers that take nothing are given up, whatever their stream does meanwhile.
#pragma once

#include <memory>
#include <thread>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace qanat::rpc {

// What: a stream with one write under way at most, the one that ends it included. Threads: the sweeper's;
// must not block.
class WritingStream {
 public:
  virtual ~WritingStream() = default;
  // Gives its reader up if the write under way began before `time`.
  virtual void EndIfStalled(Time time) = 0;
};

// What: asks all streams several times within the limit, so that a write costs nothing for being watched and
// one that lasts is found though nothing else happens on its stream. Owns its thread, which sleeps while
// there are no streams, but no stream; `clock` outlives it. Threads: any. Errors: none.
class StallSweeper {
 public:
  StallSweeper(Duration limit, const Clock& clock);
  ~StallSweeper() { Stop(); }
  StallSweeper(const StallSweeper&) = delete;
  StallSweeper& operator=(const StallSweeper&) = delete;

  void Add(const std::shared_ptr<WritingStream>& stream) EXCLUDES(mu_);
  // It may be asked once more, by a sweep that has begun.
  void Remove(const WritingStream* stream) EXCLUDES(mu_);

  // Asks nobody any more once it returns: streams may go with what they stand on. Again: nothing.
  void Stop() EXCLUDES(mu_);

  Duration limit() const { return limit_; }

 private:
  void Run() EXCLUDES(mu_);
  // False at the end.
  bool WaitForTurn() EXCLUDES(mu_);
  void Sweep() EXCLUDES(mu_);

  const Duration limit_;
  const Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  std::unordered_map<const WritingStream*, std::weak_ptr<WritingStream>> streams_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace qanat::rpc
