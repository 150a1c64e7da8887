// What waits for a caller who reads more slowly than it is generated.
#pragma once

#include <cstddef>
#include <deque>

#include "qanat/v1/inference.pb.h"

namespace qanat::router {

// What: the responses of one call that are not written yet. A response joins the one of its choice that
// waits, so that a caller who stops reading costs the bytes of its answer and no more. Owns them. Threads:
// one at a time. No errors.
//
// What comes out, concatenated, is what went in: text, ids, log-probabilities, `first_token` without gap or
// repeat; and what came last (it holds `usage`) comes out last.
class Outbox {
 public:
  // In memory: a response that waits grows no further.
  static constexpr size_t kFullBytes = 64 << 10;

  void Push(v1::GenerateResponse response);
  // REQUIRES: !empty()
  v1::GenerateResponse Pop();
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  size_t bytes() const { return bytes_; }  // of memory that wait, about

 private:
  struct Waiting {
    v1::GenerateResponse response;
    size_t bytes;  // of memory; scores take some ten times what they take on the wire
  };

  std::deque<Waiting> waiting_;
  size_t bytes_ = 0;  // of waiting_
};

}  // namespace qanat::router
