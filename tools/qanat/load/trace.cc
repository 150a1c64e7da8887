#include "tools/qanat/load/trace.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace qanat::tools {
namespace {

constexpr int kMooncakeBlock = 512;  // tokens
constexpr double kMostTokens = 1 << 24;
constexpr char kAzureHeader[] = "TIMESTAMP,ContextTokens,GeneratedTokens";

absl::Status CheckLengths(double prompt, double output) {
  if (prompt >= 0 && prompt <= kMostTokens && output >= 0 && output <= kMostTokens) return absl::OkStatus();
  return absl::InvalidArgumentError("a length is out of range");
}

// Nobody can be asked for nothing.
int32_t AtLeastOne(double tokens) { return std::max(static_cast<int32_t>(tokens), 1); }

absl::StatusOr<Session> ParseMooncake(const std::string& line, uint64_t) {
  const nlohmann::json request = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto number = [&request](const char* key) {
    const auto found = request.find(key);
    return found != request.end() && found->is_number() ? found->get<double>() : -1.0;
  };
  const double timestamp = request.is_object() ? number("timestamp") : -1.0;
  if (timestamp < 0 || timestamp > 1e12 || !request.contains("hash_ids") || !request["hash_ids"].is_array()) {
    return absl::InvalidArgumentError("it lacks timestamp or hash_ids");
  }
  const double input = number("input_length");
  const double output = number("output_length");
  QANAT_RETURN_IF_ERROR(CheckLengths(input, output));
  Session session;
  session.arrival =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(timestamp));
  Turn& turn = session.turns.emplace_back();
  turn.output = AtLeastOne(output);
  int32_t left = AtLeastOne(input);
  for (const nlohmann::json& id : request["hash_ids"]) {
    if (!id.is_number_unsigned() || left == 0) break;
    turn.prompt.push_back({id.get<uint64_t>(), std::min(left, kMooncakeBlock)});
    left -= turn.prompt.back().tokens;
  }
  if (left > 0 || turn.prompt.size() != request["hash_ids"].size()) {
    return absl::InvalidArgumentError("hash_ids are not one a block of 512 tokens");
  }
  return session;
}

absl::StatusOr<Session> ParseAzure(const std::string& line, uint64_t number) {
  const std::vector<std::string> fields = absl::StrSplit(line, ',');
  absl::Time time;
  std::string error;
  double input = 0;
  double output = 0;
  if (fields.size() != 3 || !absl::ParseTime("%Y-%m-%d %H:%M:%E*S", fields[0], &time, &error) ||
      !absl::SimpleAtod(fields[1], &input) || !absl::SimpleAtod(fields[2], &output)) {
    return absl::InvalidArgumentError("it is not a time and two lengths");
  }
  QANAT_RETURN_IF_ERROR(CheckLengths(input, output));
  // Other centuries do not fit in nanoseconds.
  if (time < absl::UnixEpoch() || time > absl::UnixEpoch() + absl::Hours(24 * 365 * 200)) {
    return absl::InvalidArgumentError("the time is out of range");
  }
  Session session;
  session.arrival = absl::ToChronoNanoseconds(time - absl::UnixEpoch());
  session.turns.push_back({.prompt = {{number, AtLeastOne(input)}}, .output = AtLeastOne(output)});
  return session;
}

}  // namespace

absl::StatusOr<std::vector<Session>> ParseTrace(std::istream& lines, int limit) {
  const size_t most = limit > 0 ? static_cast<size_t>(limit) : std::numeric_limits<size_t>::max();
  std::vector<Session> sessions;
  decltype(&ParseMooncake) parse = nullptr;
  uint64_t number = 0;
  for (std::string line; sessions.size() < most && std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (parse == nullptr) {
      parse = line == kAzureHeader ? &ParseAzure : &ParseMooncake;
      if (parse == &ParseAzure) continue;
    }
    absl::StatusOr<Session> session = parse(line, number);
    if (!session.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " of the trace: ", std::string(session.status().message())));
    }
    sessions.push_back(*std::move(session));
  }
  std::stable_sort(sessions.begin(), sessions.end(),
                   [](const Session& a, const Session& b) { return a.arrival < b.arrival; });
  if (sessions.empty()) return absl::InvalidArgumentError("the trace is empty");
  const Duration first = sessions.front().arrival;
  for (Session& session : sessions) session.arrival -= first;
  return sessions;
}

absl::StatusOr<std::vector<Session>> ReadTrace(const std::string& path, int limit) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  return ParseTrace(file, limit);
}

}  // namespace qanat::tools
