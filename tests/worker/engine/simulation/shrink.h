// From a history that fails to the smallest one that still does.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/worker/engine/simulation/history.h"

namespace qanat::engine::simulation {

// The last words of a run that failed; unset when it did not.
using Attempt = std::function<std::optional<std::string>(const History&)>;

// Runs `body` in a child of this process, so that a broken invariant ends the child alone. The child's last
// words when it did not end well.
std::optional<std::string> RunIsolated(const std::function<void()>& body);

// Takes away events and requests, then makes what is left smaller, as long as `attempt` fails. REQUIRES:
// attempt(history) fails.
History Shrink(History history, const Attempt& attempt);

}  // namespace qanat::engine::simulation
