// QANAT_CHECK(condition) << "what it means": ends the process, in every build, when an invariant of our own
// is broken. Input from users, files or the network never reaches one: that is a Status.
// QANAT_DCHECK is the same in debug and sanitizer builds and nothing in a release.
#pragma once

#include <sstream>

namespace qanat::internal {

// Collects the message of a failed check; its destructor prints it and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Makes both arms of the conditional in QANAT_CHECK void.
struct Voidify {
  void operator&(std::ostream&) {}
};

}  // namespace qanat::internal

#define QANAT_CHECK(condition)                      \
  __builtin_expect(static_cast<bool>(condition), 1) \
      ? static_cast<void>(0)                        \
      : ::qanat::internal::Voidify() &              \
            ::qanat::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#if defined(QANAT_DEBUG_CHECKS)
#define QANAT_DCHECK(condition) QANAT_CHECK(condition)
#else
#define QANAT_DCHECK(condition) QANAT_CHECK(true || (condition))
#endif
