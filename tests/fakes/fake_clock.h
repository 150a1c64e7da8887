// A clock that only a test moves.
#pragma once

#include "common/base/virtual_clock.h"

namespace qanat::fakes {

using FakeClock = VirtualClock;

}  // namespace qanat::fakes
