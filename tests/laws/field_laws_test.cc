// No field of a request is ignored in silence: not one that the contract has, not one of the future.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/api/generate.h"
#include "common/base/error.h"
#include "common/text/chat_template.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"
#include "tests/laws/law_rig.h"

namespace qanat::service {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Shows all that a template is given.
constexpr char kTemplate[] =
    "{{ messages | tojson }}{{ tools | tojson }}{{ add_generation_prompt }}{{ argument }}";

// A value in range that does something, where the type alone does not tell one.
const std::map<std::string, std::string> kTexts = {
    {"chat.tools_json", R"([{"a":1}])"},
    {"chat.template_arguments_json", R"({"argument":1})"},
    {"chat.messages.tool_calls_json", R"([{"a":1}])"},
};
const std::map<std::string, bool> kSwitches = {{"chat.add_generation_prompt", false}};

void SetSingular(Message& message, const FieldDescriptor& field, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, 3);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, 3);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, 0.5f);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, kSwitches.count(path) == 0 || kSwitches.at(path));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(
          &message, &field, field.enum_type()->value(field.enum_type()->value_count() - 1)->number());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, kTexts.count(path) > 0 ? kTexts.at(path) : "x");
    default:
      FAIL() << path << " has a type that this test knows no value for";
  }
}

void Set(Message& message, const FieldDescriptor& field, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_map()) {
    Message& entry = *reflection.AddMessage(&message, &field);
    for (int i = 0; i < entry.GetDescriptor()->field_count(); ++i) {
      SetSingular(entry, *entry.GetDescriptor()->field(i), path);
    }
  } else if (!field.is_repeated()) {
    SetSingular(message, field, path);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    reflection.AddInt32(&message, &field, 3);
  } else {
    ASSERT_EQ(field.cpp_type(), FieldDescriptor::CPPTYPE_STRING) << path;
    reflection.AddString(&message, &field, "x");
  }
}

// What a message needs before anything else of it makes sense.
void Prepare(Message& message) {
  if (auto* chat = dynamic_cast<v1::ChatPrompt*>(&message)) chat->add_messages()->set_role("user");
  if (auto* turn = dynamic_cast<v1::ChatMessage*>(&message)) turn->set_role("user");
}

using Visit = std::function<void(const std::string& path, const std::function<void()>& set)>;

// Every field that holds a value, at any depth: `visit` finds the request as it is without it, and with it
// after `set`.
void ForEachField(Message& message, const std::string& prefix, const Visit& visit) {
  const Descriptor& descriptor = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  const std::unique_ptr<Message> before(message.New());
  before->CopyFrom(message);
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const std::string path = prefix + field.name();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map()) {
      Message& inner = field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                           : *reflection.MutableMessage(&message, &field);
      Prepare(inner);
      ForEachField(inner, path + ".", visit);
    } else {
      visit(path, [&] { Set(message, field, path); });
    }
    message.CopyFrom(*before);
  }
}

// All that the server takes from a request, or why it takes nothing.
std::string Describe(const api::GenerateParams& p) {
  const auto optional = [](const std::optional<int32_t>& value) { return value.value_or(-1); };
  std::string bias;
  for (const auto& [id, value] : p.logit_bias) absl::StrAppend(&bias, id, ":", value, ",");
  return absl::StrCat(
      absl::StrJoin(
          {p.temperature, p.top_p, p.min_p, p.presence_penalty, p.frequency_penalty, p.repetition_penalty},
          " "),
      "|",
      absl::StrJoin({p.top_k, p.n, p.max_tokens, p.min_tokens, optional(p.logprobs),
                     optional(p.prompt_logprobs), static_cast<int32_t>(p.priority)},
                    " "),
      "|",
      absl::StrJoin({p.ignore_eos, p.include_stop, p.return_token_ids, p.final_only, p.bypass_prefix_cache},
                    " "),
      "|", absl::StrJoin({p.request_id, p.cache_salt, bias, absl::StrJoin(p.stop, ",")}, " "), "|",
      absl::StrJoin(p.allowed_token_ids, ","), "|", absl::StrJoin(p.stop_token_ids, ","), "|", p.seed);
}

class FieldLawsTest : public ::testing::Test {
 protected:
  FieldLawsTest()
      : tokenizer_(*text::Tokenizer::Create(fakes::ByteLevelVocabulary({}))),
        template_(*text::ChatTemplate::Create(kTemplate, "", "")) {
    model_.id = "tiny";
    model_.context_length = 1024;
    model_.vocab_size = tokenizer_->size();
    model_.pool_tokens = 1 << 20;
  }

  absl::StatusOr<std::string> Taken(const v1::GenerateRequest& request) const {
    const auto params = api::ValidateGenerate(request, model_, /*drawn_seed=*/1);
    if (!params.ok()) return params.status();
    const auto ids = api::EncodePrompt(request, *tokenizer_, template_.get());
    if (!ids.ok()) return ids.status();
    return absl::StrCat(Describe(*params), "|", absl::StrJoin(*ids, ","));
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
  api::ServedModel model_;
};

TEST_F(FieldLawsTest, EveryFieldOfTheContractIsHonouredOrRefusedByName) {
  v1::GenerateRequest request;
  request.set_text("ab");
  std::map<absl::StatusCode, int> seen;
  int fields = 0;
  ForEachField(request, "", [&](const std::string& path, const std::function<void()>& set) {
    ++fields;
    const auto without = Taken(request);
    set();
    const auto with = Taken(request);
    ++seen[with.status().code()];
    if (with.ok()) {
      EXPECT_TRUE(!without.ok() || *with != *without) << path << " is set and nothing comes of it";
      return;
    }
    EXPECT_TRUE(with.status().code() == absl::StatusCode::kUnimplemented ||
                with.status().code() == absl::StatusCode::kNotFound)
        << path << " needs a value that is in range: " << with.status();
    EXPECT_EQ(path.rfind(FieldOf(with.status()), 0), 0u) << path << " is refused as " << with.status();
  });
  EXPECT_GE(fields, 40);
  EXPECT_GE(seen[absl::StatusCode::kOk], 30);
}

// --- Fields of the future
// ---------------------------------------------------------------------------------------

// Every message that is set, the request itself among them.
void CollectMessages(Message& message, std::vector<Message*>& out) {
  out.push_back(&message);
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    const Reflection& reflection = *message.GetReflection();
    if (!field->is_repeated()) {
      CollectMessages(*reflection.MutableMessage(&message, field), out);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      CollectMessages(*reflection.MutableRepeatedMessage(&message, field, i), out);
    }
  }
}

int UnknownNumber(Random& random, const Descriptor& descriptor) {
  while (true) {
    const int number =
        OneIn(random, 2) ? 1 + Pick(random, 40) : 1 + Pick(random, FieldDescriptor::kMaxNumber);
    const bool reserved =
        FieldDescriptor::kFirstReservedNumber <= number && number <= FieldDescriptor::kLastReservedNumber;
    if (!reserved && descriptor.FindFieldByNumber(number) == nullptr) return number;
  }
}

void AddUnknown(Random& random, Message& message, int number) {
  google::protobuf::UnknownFieldSet& unknown = *message.GetReflection()->MutableUnknownFields(&message);
  switch (Pick(random, 4)) {
    case 0:
      return unknown.AddVarint(number, random());
    case 1:
      return unknown.AddFixed32(number, static_cast<uint32_t>(random()));
    case 2:
      return unknown.AddFixed64(number, random());
    default:
      unknown.AddLengthDelimited(number, std::string(Pick(random, 40), 'x'));
  }
}

TEST_F(FieldLawsTest, AFieldOfTheFutureIsRefusedByItsNumberAtAnyDepth) {
  LawRig rig;
  Random random(30);
  std::map<std::string, int> seen;
  for (int round = 0; round < 3000; ++round) {
    v1::GenerateRequest sent = rig.Draw(random);
    if (OneIn(random, 3)) sent.mutable_chat()->add_messages()->set_role("user");
    if (OneIn(random, 4)) sent.mutable_sampling()->mutable_constraint()->mutable_choices()->add_values("x");
    std::vector<Message*> messages;
    CollectMessages(sent, messages);
    Message& message = *messages[random() % messages.size()];
    const int number = UnknownNumber(random, *message.GetDescriptor());
    AddUnknown(random, message, number);
    ++seen[message.GetDescriptor()->name()];
    v1::GenerateRequest received;
    ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
    const absl::Status status = rig.Ask(received).status;
    ASSERT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_TRUE(FieldOf(status).ends_with(std::to_string(number))) << status;
    EXPECT_NE(status.message().find(std::to_string(number)), absl::string_view::npos) << status;
  }
  EXPECT_EQ(seen.size(), 9u) << "GenerateRequest and the eight messages it may hold";
  EXPECT_FALSE(rig.Step()) << "nothing reached the engine";
}

}  // namespace
}  // namespace qanat::service
