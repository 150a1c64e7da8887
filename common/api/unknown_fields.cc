#include "common/api/unknown_fields.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

namespace qanat::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Check(const Message& message, const std::string& prefix) {
  const Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    const int number = unknown.field(0).number();
    return WithReason(WithField(absl::UnimplementedError(absl::StrCat("unknown field ", number, " of ",
                                                                      message.GetDescriptor()->full_name(),
                                                                      " is not honoured")),
                                absl::StrCat(prefix, number)),
                      "FIELD_NOT_HONOURED");
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    // Entries of maps hold scalars here, and parsing drops what else is in them.
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    const std::string name = absl::StrCat(prefix, field->name());
    if (!field->is_repeated()) {
      QANAT_RETURN_IF_ERROR(Check(reflection.GetMessage(message, field), absl::StrCat(name, ".")));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      QANAT_RETURN_IF_ERROR(
          Check(reflection.GetRepeatedMessage(message, field, i), absl::StrCat(name, "[", i, "].")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNoUnknownFields(const Message& message) { return Check(message, ""); }

}  // namespace qanat::api
