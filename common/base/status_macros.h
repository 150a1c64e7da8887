// Early return of errors.
//   QANAT_RETURN_IF_ERROR(Write(x));
//   QANAT_ASSIGN_OR_RETURN(Model model, Load(path));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define QANAT_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                        \
    if (absl::Status qanat_status_ = (expression); !qanat_status_.ok()) return qanat_status_; \
  } while (false)

#define QANAT_ASSIGN_OR_RETURN(declaration, expression) \
  QANAT_ASSIGN_OR_RETURN_(QANAT_STATUS_NAME_(qanat_or_, __LINE__), declaration, expression)
#define QANAT_ASSIGN_OR_RETURN_(name, declaration, expression) \
  auto name = (expression);                                    \
  if (!name.ok()) return name.status();                        \
  declaration = *std::move(name)
#define QANAT_STATUS_NAME_(a, b) QANAT_STATUS_NAME_2_(a, b)
#define QANAT_STATUS_NAME_2_(a, b) a##b
