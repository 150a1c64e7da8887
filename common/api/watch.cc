#include "common/api/watch.h"

#include <cmath>

#include "common/api/duration_proto.h"
#include "common/base/error.h"

namespace qanat::api {
namespace {

void Write(const Residency& residency, cluster::v1::Residency& proto) {
  proto.set_resident_count(residency.resident_count);
  proto.set_digest(residency.digest);
}

Residency Read(const cluster::v1::Residency& proto) { return {proto.resident_count(), proto.digest()}; }

void Write(const StepModel& model, cluster::v1::StepModel& proto) {
  proto.set_fixed_us(model.fixed_us);
  proto.set_sequence_us(model.sequence_us);
  proto.set_weights_us(model.weights_us);
  proto.set_token_us(model.token_us);
  proto.set_context_us(model.context_us);
  proto.set_attention_us(model.attention_us);
}

StepModel Read(const cluster::v1::StepModel& proto) {
  return {proto.fixed_us(), proto.sequence_us(), proto.weights_us(),
          proto.token_us(), proto.context_us(),  proto.attention_us()};
}

// Writes a frame's body; one overload a kind.
struct BodyWriter {
  void operator()(const SnapshotBegin& begin) const {
    proto.mutable_snapshot_begin()->set_resident_count(begin.resident_count);
  }
  void operator()(const SnapshotChunk& chunk) const {
    proto.mutable_snapshot_chunk()->mutable_stored()->Add(chunk.stored.begin(), chunk.stored.end());
  }
  void operator()(const SnapshotEnd& end) const {
    Write(end.residency, *proto.mutable_snapshot_end()->mutable_residency());
  }
  void operator()(const Delta& delta) const {
    cluster::v1::Delta& body = *proto.mutable_delta();
    body.mutable_stored()->Add(delta.stored.begin(), delta.stored.end());
    body.mutable_removed()->Add(delta.removed.begin(), delta.removed.end());
    Write(delta.residency, *body.mutable_residency());
  }
  void operator()(const Load& load) const {
    cluster::v1::Load& body = *proto.mutable_load();
    body.set_load_version(load.load_version);
    body.set_running(load.running);
    body.set_waiting(load.waiting);
    body.set_waiting_tokens(load.waiting_tokens);
    body.set_prefill_tokens(load.prefill_tokens);
    body.set_context_tokens(load.context_tokens);
    body.set_total_blocks(load.total_blocks);
    body.set_free_blocks(load.free_blocks);
    body.set_cached_blocks(load.cached_blocks);
    body.set_draining(load.draining);
    body.set_step_id(load.step_id);
    *body.mutable_step_age() = ToProto(load.step_age);
    Write(load.step_model, *body.mutable_step_model());
    Write(load.residency, *body.mutable_residency());
  }

  cluster::v1::WatchResponse& proto;
};

Delta Read(const cluster::v1::Delta& proto) {
  return {{proto.stored().begin(), proto.stored().end()},
          {proto.removed().begin(), proto.removed().end()},
          Read(proto.residency())};
}

bool IsSane(const StepModel& model) {
  for (double coefficient : {model.fixed_us, model.sequence_us, model.weights_us, model.token_us,
                             model.context_us, model.attention_us}) {
    if (!std::isfinite(coefficient) || coefficient < 0) return false;
  }
  return true;
}

absl::StatusOr<Load> Read(const cluster::v1::Load& proto) {
  Load load;
  load.load_version = proto.load_version();
  load.running = proto.running();
  load.waiting = proto.waiting();
  load.waiting_tokens = proto.waiting_tokens();
  load.prefill_tokens = proto.prefill_tokens();
  load.context_tokens = proto.context_tokens();
  load.total_blocks = proto.total_blocks();
  load.free_blocks = proto.free_blocks();
  load.cached_blocks = proto.cached_blocks();
  load.draining = proto.draining();
  load.step_id = proto.step_id();
  load.step_age = FromProto(proto.step_age());
  load.step_model = Read(proto.step_model());
  load.residency = Read(proto.residency());
  if (load.running < 0 || load.waiting < 0 || load.waiting_tokens < 0 || load.prefill_tokens < 0 ||
      load.context_tokens < 0 || load.free_blocks < 0 || load.cached_blocks < 0 ||
      load.total_blocks < load.free_blocks + load.cached_blocks) {
    return InvalidField("load", "a count that no worker can have");
  }
  if (!IsSane(load.step_model)) return InvalidField("load.step_model", "a coefficient below 0 or not finite");
  return load;
}

}  // namespace

cluster::v1::WatchResponse ToProto(const WatchFrame& frame) {
  cluster::v1::WatchResponse proto;
  proto.set_epoch(frame.epoch);
  proto.set_seq(frame.seq);
  std::visit(BodyWriter{proto}, frame.body);
  return proto;
}

absl::StatusOr<WatchFrame> FromProto(const cluster::v1::WatchResponse& proto) {
  WatchFrame frame{proto.epoch(), proto.seq(), SnapshotBegin{}};
  switch (proto.body_case()) {
    case cluster::v1::WatchResponse::kSnapshotBegin:
      frame.body = SnapshotBegin{proto.snapshot_begin().resident_count()};
      return frame;
    case cluster::v1::WatchResponse::kSnapshotChunk: {
      const auto& stored = proto.snapshot_chunk().stored();
      frame.body = SnapshotChunk{{stored.begin(), stored.end()}};
      return frame;
    }
    case cluster::v1::WatchResponse::kSnapshotEnd:
      frame.body = SnapshotEnd{Read(proto.snapshot_end().residency())};
      return frame;
    case cluster::v1::WatchResponse::kDelta:
      frame.body = Read(proto.delta());
      return frame;
    case cluster::v1::WatchResponse::kLoad: {
      auto load = Read(proto.load());
      if (!load.ok()) return load.status();
      frame.body = *load;
      return frame;
    }
    case cluster::v1::WatchResponse::BODY_NOT_SET:
      break;
  }
  return InvalidField("body", "a frame of an unknown kind");
}

}  // namespace qanat::api
