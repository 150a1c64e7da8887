// The floating-point mode that the kernels' bits are defined under: round to nearest even, denormals kept
// (neither flush-to-zero nor denormals-are-zero), all exceptions masked. Denormals are kept because that is
// what IEEE, a GPU's fma and a software fma agree on.
#pragma once

namespace qanat::kernels {

// Sets it for the calling thread; to be called on every thread that computes.
void SetFloatMode();

}  // namespace qanat::kernels
