// Input: a byte that chooses a message (tests/fuzz/messages.h), then its bytes on the wire.
//
// Laws, for whatever parses:
//  1 it is validated: a refusal has a code that callers know, a message and, where it is about a field, its
//  path 2 a request that is accepted is within its bounds, and its prompt encodes to ids of the vocabulary 3
//  with a field that nobody knows it is refused as UNIMPLEMENTED or for an earlier reason, never accepted 4 a
//  vocabulary that came over the wire makes a tokenizer or is refused by its key
#include <cstdint>
#include <string>

#include "common/api/generate.h"
#include "common/api/tokenizer_proto.h"
#include "common/api/worker_info.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/text/chat_template.h"
#include "google/protobuf/unknown_field_set.h"
#include "tests/fuzz/fuzzed_tokenizers.h"
#include "tests/fuzz/messages.h"

namespace qanat::fuzz {
namespace {

using google::protobuf::Message;

const text::Tokenizer& TheTokenizer() { return *FuzzedTokenizers().front().tokenizer; }

const text::ChatTemplate& TheTemplate() {
  static const auto& chat_template = *new std::unique_ptr<text::ChatTemplate>(
      text::ChatTemplate::Create(
          "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.name }}{% endfor %}{{ tools | length }}",
          "<|im_start|>", "<|im_end|>")
          .value());
  return *chat_template;
}

api::ServedModel TheModel() {
  return {.id = "m",
          .context_length = 64,
          .vocab_size = TheTokenizer().size(),
          .block_size = 16,
          .pool_tokens = 128};
}

void CheckRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      QANAT_CHECK(!FieldOf(status).empty()) << status.ToString();
      break;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      break;
    default:
      QANAT_CHECK(false) << status.ToString();
  }
  QANAT_CHECK(!status.message().empty() && status.message().size() < 2000) << status.ToString();
}

template <typename Request>
void CheckPrompt(const Request& request) {
  const auto prompt = api::EncodePrompt(request, TheTokenizer(), &TheTemplate());
  if (!prompt.ok()) return CheckRefusal(prompt.status());
  for (const TokenId id : *prompt) QANAT_CHECK(id >= 0 && id < TheTokenizer().size()) << id;
}

// OK or the refusal of one message.
absl::Status Validate(const v1::GenerateRequest& request) {
  const auto params = api::ValidateGenerate(request, TheModel(), 7);
  if (!params.ok()) return params.status();
  QANAT_CHECK(params->temperature >= 0 && params->temperature <= 2);
  QANAT_CHECK(params->top_p > 0 && params->top_p <= 1);
  QANAT_CHECK(params->max_tokens >= 0);
  CheckPrompt(request);
  const auto prompt = api::EncodePrompt(request, TheTokenizer(), &TheTemplate());
  if (!prompt.ok()) return absl::OkStatus();
  const auto clipped = api::ClipMaxTokens(*params, *prompt, TheModel());
  if (!clipped.ok()) {
    CheckRefusal(clipped.status());
  } else {
    QANAT_CHECK(*clipped >= 1 && *clipped + static_cast<int>(prompt->size()) <= 64) << *clipped;
  }
  return absl::OkStatus();
}
absl::Status Validate(const v1::TokenizeRequest& request) {
  const absl::Status status = api::ValidateTokenize(request, TheModel());
  if (status.ok()) CheckPrompt(request);
  return status;
}
absl::Status Validate(const v1::DetokenizeRequest& request) {
  return api::ValidateDetokenize(request, TheModel());
}

// A public request: nothing in it is ignored.
template <typename Request>
void RunPublic(const std::string& bytes) {
  Request request;
  if (!request.ParseFromString(bytes)) return;
  const absl::Status status = Validate(request);
  if (!status.ok()) return CheckRefusal(status);
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(7777, 1);
  const absl::Status unknown = Validate(request);
  QANAT_CHECK(absl::IsUnimplemented(unknown)) << unknown.ToString();
  CheckRefusal(unknown);
}

void RunTokenizer(const std::string& bytes) {
  cluster::v1::Tokenizer proto;
  if (!proto.ParseFromString(bytes)) return;
  auto vocabulary = api::FromProto(proto);
  if (!vocabulary.ok()) return;
  const auto tokenizer = text::Tokenizer::Create(*std::move(vocabulary));
  if (!tokenizer.ok()) return CheckRefusal(tokenizer.status());
  for (const TokenId id : (*tokenizer)->Encode("a b<s>")) QANAT_CHECK(id >= 0 && id < (*tokenizer)->size());
}

void RunWorkerInfo(const std::string& bytes) {
  cluster::v1::GetInfoResponse proto;
  if (!proto.ParseFromString(bytes)) return;
  const auto info = api::FromProto(proto);
  if (info.ok()) QANAT_CHECK(info->model.block_size > 0 && info->model.context_length > 0);
}

void Run(MessageKind kind, const std::string& bytes) {
  switch (kind) {
    case MessageKind::kGenerate:
      return RunPublic<v1::GenerateRequest>(bytes);
    case MessageKind::kTokenize:
      return RunPublic<v1::TokenizeRequest>(bytes);
    case MessageKind::kDetokenize:
      return RunPublic<v1::DetokenizeRequest>(bytes);
    case MessageKind::kTokenizer:
      return RunTokenizer(bytes);
    case MessageKind::kWorkerInfo:
      return RunWorkerInfo(bytes);
  }
}

}  // namespace
}  // namespace qanat::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  qanat::fuzz::Run(qanat::fuzz::KindOf(data[0]),
                   std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
