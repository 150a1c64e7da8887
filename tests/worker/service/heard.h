// What a caller hears of one stream, and what holds for all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "gtest/gtest.h"
#include "qanat/v1/inference.pb.h"

namespace qanat::service {

// What a whole stream said.
struct Heard {
  std::vector<v1::GenerateResponse> messages;
  absl::Status status;

  std::string text() const {
    std::string out;
    for (const auto& message : messages) out += message.text();
    return out;
  }
  std::vector<TokenId> ids() const {
    std::vector<TokenId> out;
    for (const auto& message : messages)
      out.insert(out.end(), message.token_ids().begin(), message.token_ids().end());
    return out;
  }
  // Of one choice.
  std::string text(int32_t choice) const {
    std::string out;
    for (const auto& message : messages) out += message.index() == choice ? message.text() : "";
    return out;
  }
  v1::Finish finish(int32_t choice) const {
    for (const auto& message : messages) {
      if (message.index() == choice && message.has_finish()) return message.finish();
    }
    return {};
  }
  const v1::GenerateResponse& last() const { return messages.back(); }
};

// The laws that hold for every stream, whatever it says.
inline void ExpectLaws(const Heard& heard) {
  std::map<int32_t, int32_t> first;  // by choice
  std::map<int32_t, v1::FinishReason> finishes;
  for (size_t i = 0; i < heard.messages.size(); ++i) {
    const v1::GenerateResponse& message = heard.messages[i];
    const bool last = i + 1 == heard.messages.size();
    EXPECT_EQ(finishes.count(message.index()), 0u) << "news of a choice that has finished";
    EXPECT_GE(message.first_token(), first[message.index()]);
    first[message.index()] = message.first_token();
    if (message.has_finish()) finishes[message.index()] = message.finish().reason();
    EXPECT_TRUE(!message.has_usage() || (last && message.has_finish()));
    EXPECT_TRUE(message.has_usage() == message.has_timings() && message.has_usage() == message.has_seed());
  }
  const bool success =
      !heard.messages.empty() && heard.last().has_usage() &&
      std::all_of(finishes.begin(), finishes.end(), [](const auto& finish) {
        return finish.second == v1::FINISH_REASON_STOP || finish.second == v1::FINISH_REASON_LENGTH;
      });
  EXPECT_EQ(heard.status.ok(), success) << heard.status;
}

}  // namespace qanat::service
