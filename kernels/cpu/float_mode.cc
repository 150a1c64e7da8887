#include "kernels/float_mode.h"

#include <xmmintrin.h>

namespace qanat::kernels {

void SetFloatMode() { _mm_setcsr(0x1F80); }

}  // namespace qanat::kernels
