// Names of things that are numbers, kept apart by the compiler.
#pragma once

#include <cstdint>
#include <functional>

namespace qanat {

// A token of the vocabulary.
using TokenId = int32_t;

// One generation inside one process: ours, never the caller's request_id. 0 names none.
enum class SequenceId : uint64_t {};

inline uint64_t ToInt(SequenceId id) { return static_cast<uint64_t>(id); }

}  // namespace qanat
