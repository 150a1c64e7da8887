// The one line that a request leaves in the log, accepted or not.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "worker/engine/request.h"

namespace qanat::service {

// Logs ids, counts, timings and outcome; never a prompt or an answer.
void LogEnd(SequenceId id, std::string_view request_id, const engine::Outcome& outcome, Duration total);

// Logs a request that was not accepted, by its reason; never what it asked for. At debug where another worker
// may take it: then it has not ended; and where nothing is wrong with it but that there is no room, which
// comes in floods and is counted by reason.
void LogRefusal(std::string_view request_id, const absl::Status& why, bool redirected);

// A caller's label made safe for a log of any format: letters, digits and ".:_-", others as '?', 64 bytes at
// most.
std::string SafeLabel(std::string_view label);

// "stop", "length", "cancelled", "deadline", "error": as metrics and logs call it.
std::string_view NameOf(engine::EndReason reason);

}  // namespace qanat::service
