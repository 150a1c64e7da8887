// What a load generator sends, as data: sessions of turns, their prompts as pieces whose token ids are made
// only when they are sent.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace qanat::tools {

// Tokens that follow from `key` (and the seed of the load): of two pieces with one key the shorter is the
// other's beginning, and two keys have nothing in common.
struct Piece {
  uint64_t key = 0;
  int32_t tokens = 0;
};

struct Turn {
  std::vector<Piece> prompt;
  int32_t output = 0;  // tokens to generate, neither more nor less
};

// A conversation. The prompt of a turn is all before it, answers included, and then its own pieces.
struct Session {
  Duration arrival{};  // since the start; a closed loop does not look at it
  std::vector<Turn> turns;
};

// Traffic without a trace: session i is of group i % groups.
struct Shape {
  int sessions = 64;
  int turns = 1;
  int groups = 1;
  int shared = 0;  // tokens that the prompts of a group begin with
  int own = 128;   // tokens that each turn adds
  int output = 64;
};

std::vector<Session> MakeSessions(const Shape& shape);

// Gives the sessions arrivals of a Poisson process, `rate` a second. REQUIRES: rate > 0.
void ArriveAtRandom(double rate, uint64_t seed, std::vector<Session>& sessions);

// Lets the sessions come `speedup` times as fast. REQUIRES: speedup > 0.
void SpeedUp(double speedup, std::vector<Session>& sessions);

// Divides all lengths by `divisor`, rounded up, so that what is shared stays shared: long traces for small
// models. REQUIRES: divisor >= 1.
void Shrink(int divisor, std::vector<Session>& sessions);

// Adds the tokens of `piece`, ids below `vocab_size`, to `tokens`: other ones with another seed. REQUIRES:
// vocab_size > 0.
void AppendTokens(const Piece& piece, uint64_t seed, int32_t vocab_size, std::vector<TokenId>& tokens);

}  // namespace qanat::tools
