#include "common/rpc/stall_sweeper.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace qanat::rpc {
namespace {

// Sweeps within the limit: a stall is found at most a quarter of the limit late.
constexpr int kSweeps = 4;
constexpr Duration kShortestTurn = std::chrono::milliseconds(1);

}  // namespace

StallSweeper::StallSweeper(Duration limit, const Clock& clock)
    : limit_(limit), clock_(clock), thread_([this] { Run(); }) {}

void StallSweeper::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void StallSweeper::Add(const std::shared_ptr<WritingStream>& stream) {
  {
    MutexLock lock(mu_);
    streams_.emplace(stream.get(), stream);
    if (streams_.size() > 1) return;
  }
  changed_.NotifyAll();
}

void StallSweeper::Remove(const WritingStream* stream) {
  MutexLock lock(mu_);
  streams_.erase(stream);
}

void StallSweeper::Run() {
  while (WaitForTurn()) Sweep();
}

bool StallSweeper::WaitForTurn() {
  MutexLock lock(mu_);
  while (streams_.empty() && !stopping_) changed_.Wait(mu_);
  // One that is woken early only sweeps more often.
  if (!stopping_) changed_.WaitFor(mu_, std::max(limit_ / kSweeps, kShortestTurn));
  return !stopping_;
}

void StallSweeper::Sweep() {
  std::vector<std::shared_ptr<WritingStream>> streams;
  {
    MutexLock lock(mu_);
    for (const auto& [key, weak] : streams_) {
      if (auto stream = weak.lock()) streams.push_back(std::move(stream));
    }
  }
  const Time time = clock_.Now() - limit_;
  for (const auto& stream : streams) stream->EndIfStalled(time);
}

}  // namespace qanat::rpc
