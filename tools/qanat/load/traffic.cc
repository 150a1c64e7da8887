#include "tools/qanat/load/traffic.h"

#include <algorithm>
#include <random>

namespace qanat::tools {
namespace {

// SplitMix64: one multiplication chain a token, and neighbouring keys have nothing in common.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<Session> MakeSessions(const Shape& shape) {
  std::vector<Session> sessions(shape.sessions);
  // Beyond the keys of groups.
  uint64_t own = uint64_t{1} << 32;
  for (int i = 0; i < shape.sessions; ++i) {
    for (int t = 0; t < shape.turns; ++t) {
      Turn& turn = sessions[i].turns.emplace_back();
      if (t == 0 && shape.shared > 0) {
        turn.prompt.push_back({static_cast<uint64_t>(i % shape.groups), shape.shared});
      }
      turn.prompt.push_back({own++, shape.own});
      turn.output = shape.output;
    }
  }
  return sessions;
}

void ArriveAtRandom(double rate, uint64_t seed, std::vector<Session>& sessions) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(rate);
  double seconds = 0;
  for (Session& session : sessions) {
    seconds += gap(random);
    session.arrival = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
}

void SpeedUp(double speedup, std::vector<Session>& sessions) {
  for (Session& session : sessions) {
    session.arrival = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(Seconds(session.arrival) / speedup));
  }
}

void Shrink(int divisor, std::vector<Session>& sessions) {
  const auto shrink = [divisor](int32_t& tokens) { tokens = (tokens + divisor - 1) / divisor; };
  for (Session& session : sessions) {
    for (Turn& turn : session.turns) {
      for (Piece& piece : turn.prompt) shrink(piece.tokens);
      shrink(turn.output);
    }
  }
}

void AppendTokens(const Piece& piece, uint64_t seed, int32_t vocab_size, std::vector<TokenId>& tokens) {
  const uint64_t start = Mix(Mix(seed) + piece.key);
  for (int32_t i = 0; i < piece.tokens; ++i) {
    tokens.push_back(
        static_cast<TokenId>(Mix(start + static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab_size)));
  }
}

}  // namespace qanat::tools
