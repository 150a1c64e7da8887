#include "tests/worker/engine/simulation/shrink.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/base/check.h"

namespace qanat::engine::simulation {
namespace {

// Takes `candidate` when it fails too.
bool Try(History& history, History candidate, const Attempt& attempt) {
  if (!attempt(candidate).has_value()) return false;
  history = std::move(candidate);
  return true;
}

// Halves, quarters, ... down to single events.
bool DropEvents(History& history, const Attempt& attempt) {
  bool smaller = false;
  for (size_t size = history.events.size(); size > 0; size /= 2) {
    for (size_t begin = 0; begin < history.events.size();) {
      History candidate = history;
      const size_t end = std::min(begin + size, candidate.events.size());
      candidate.events.erase(candidate.events.begin() + static_cast<std::ptrdiff_t>(begin),
                             candidate.events.begin() + static_cast<std::ptrdiff_t>(end));
      if (Try(history, std::move(candidate), attempt)) {
        smaller = true;
      } else {
        begin += size;
      }
    }
  }
  return smaller;
}

// A number of a history, to be made as small as `least`.
template <typename Number>
bool Lower(History& history, const Attempt& attempt, Number least,
           const std::function<Number&(History&)>& field) {
  bool smaller = false;
  while (field(history) > least) {
    const Number value = field(history);
    bool lower = false;
    for (Number target :
         {least, static_cast<Number>(least + (value - least) / 2), static_cast<Number>(value - 1)}) {
      if (target >= value) continue;
      History candidate = history;
      field(candidate) = target;
      if (Try(history, std::move(candidate), attempt)) {
        lower = smaller = true;
        break;
      }
    }
    if (!lower) break;
  }
  return smaller;
}

bool LowerRequests(History& history, const Attempt& attempt) {
  bool smaller = Lower<int>(history, attempt, 1, [](History& h) -> int& { return h.depth; });
  for (size_t i = 0; i < history.requests.size(); ++i) {
    const bool used = std::any_of(history.events.begin(), history.events.end(), [i](const SimEvent& event) {
      return static_cast<size_t>(event.request) == i;
    });
    if (!used) continue;
    const auto lower = [&](int32_t least, int32_t SimRequest::*field) {
      smaller |= Lower<int32_t>(history, attempt, least,
                                [i, field](History& h) -> int32_t& { return h.requests[i].*field; });
    };
    lower(1, &SimRequest::max_tokens);
    lower(0, &SimRequest::shared);
    lower(0, &SimRequest::deadline_ms);
    History plain = history;
    SimRequest& request = plain.requests[i];
    const bool was_plain = !request.bypass_prefix_cache && !request.other_namespace && !request.may_stop;
    request.bypass_prefix_cache = request.other_namespace = request.may_stop = false;
    if (!was_plain) smaller |= Try(history, std::move(plain), attempt);
  }
  for (size_t i = 0; i < history.events.size(); ++i) {
    const int32_t before = i == 0 ? 0 : history.events[i - 1].step;
    smaller |=
        Lower<int32_t>(history, attempt, before, [i](History& h) -> int32_t& { return h.events[i].step; });
    smaller |=
        Lower<int32_t>(history, attempt, 0, [i](History& h) -> int32_t& { return h.events[i].amount; });
  }
  return smaller;
}

// Requests that no event names any more.
void DropUnusedRequests(History& history) {
  std::vector<int32_t> index(history.requests.size(), -1);
  std::vector<SimRequest> used;
  for (SimEvent& event : history.events) {
    if (index[event.request] < 0) {
      index[event.request] = static_cast<int32_t>(used.size());
      used.push_back(history.requests[event.request]);
    }
    event.request = index[event.request];
  }
  history.requests = std::move(used);
}

}  // namespace

std::optional<std::string> RunIsolated(const std::function<void()>& body) {
  std::array<int, 2> words;
  QANAT_CHECK(pipe(words.data()) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  QANAT_CHECK(child >= 0);
  if (child == 0) {
    dup2(words[1], STDERR_FILENO);
    close(words[0]);
    close(words[1]);
    body();
    _exit(0);
  }
  close(words[1]);
  std::string said;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(words[0], buffer.data(), buffer.size())) > 0;) said.append(buffer.data(), n);
  close(words[0]);
  int status = 0;
  QANAT_CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  return said.empty() ? "ended without a word" : said;
}

History Shrink(History history, const Attempt& attempt) {
  QANAT_CHECK(attempt(history).has_value());
  while (DropEvents(history, attempt) || LowerRequests(history, attempt)) {
  }
  DropUnusedRequests(history);
  return history;
}

}  // namespace qanat::engine::simulation
