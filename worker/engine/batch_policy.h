// Who may join those that run: the one decision that the modes of --batching differ in.
#pragma once

#include <cstdint>
#include <memory>

namespace qanat::engine {

enum class Batching : uint8_t {
  kContinuous,       // a seat that falls free is taken in the next step
  kStatic,           // nobody joins until the whole batch has ended; who has ended is computed until then
  kStaticCompacted,  // the same, but who has ended is not computed any more
};

// What: how many sequences a step may admit. Owned by the scheduler. Threads: the engine thread. Errors:
// none.
class BatchPolicy {
 public:
  virtual ~BatchPolicy() = default;
  // A step in which `running` sequences have a seat: how many more may take one.
  virtual int32_t FreeSeats(int32_t running) = 0;
  // As many did; some of the running, or none, have more of their prompt to compute in a later step.
  virtual void OnAdmitted(int32_t admitted, bool prefilling) = 0;
};

// With `seats` seats.
std::unique_ptr<BatchPolicy> MakeBatchPolicy(Batching batching, int32_t seats);

}  // namespace qanat::engine
