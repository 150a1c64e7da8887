// How our channels and servers are set up, in one place, since both sides must agree (on keepalive above all:
// gRPC closes a connection whose pings come faster than the server's side allows).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"

namespace qanat::rpc {

// Bounds of one message, both ways. A prompt of text has at most 4 MiB and as many ids of at most 3 bytes; an
// answer is split at 1 MiB and a Session's message is not much larger.
inline constexpr int kMaxMessageBytes = 16 << 20;

// A connection that is cut or whose peer is stopped is known dead after time + timeout.
inline constexpr int kKeepaliveTimeMs = 2000;
inline constexpr int kKeepaliveTimeoutMs = 2000;

// A channel of its own connection to "host:port", plain text. Connecting is lazy and retried by itself.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target);

// When the caller stops waiting, on our clock. Unset: never.
std::optional<Time> DeadlineOf(const grpc::ServerContextBase& context, const Clock& clock);

// A time left as a deadline. More than a year is never, and as long ago is soon enough: a count of
// nanoseconds must hold the sum, and differences of it.
std::optional<Time> DeadlineIn(Duration left, const Clock& clock);

// Gives a call the time left until `deadline`; unset: no limit.
void SetDeadline(grpc::ClientContext& context, std::optional<Time> deadline, const Clock& clock);

// The peer of a call, as gRPC writes it ("ipv4:127.0.0.1:4711"), is on this machine.
bool IsLoopbackPeer(const std::string& peer);

}  // namespace qanat::rpc
