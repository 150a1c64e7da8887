#include "common/api/tokenizer_proto.h"

#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace qanat::api {
namespace {

// GGUF counts its token types from 1; 0 is "undefined" and no file uses it.
constexpr int kFirstKind = 1;
constexpr int kLastKind = kFirstKind + static_cast<int>(text::TokenKind::kByte);

}  // namespace

cluster::v1::Tokenizer ToProto(const text::Vocabulary& vocabulary) {
  cluster::v1::Tokenizer proto;
  proto.set_model(vocabulary.model);
  proto.set_pre(vocabulary.pre);
  *proto.mutable_tokens() = {vocabulary.tokens.begin(), vocabulary.tokens.end()};
  for (const text::TokenKind kind : vocabulary.kinds) proto.add_kinds(kFirstKind + static_cast<int>(kind));
  *proto.mutable_merges() = {vocabulary.merges.begin(), vocabulary.merges.end()};
  proto.set_bos(vocabulary.bos);
  proto.set_eos(vocabulary.eos);
  proto.set_unk(vocabulary.unk);
  proto.set_pad(vocabulary.pad);
  *proto.mutable_end_of_generation() = {vocabulary.eog.begin(), vocabulary.eog.end()};
  proto.set_add_bos(vocabulary.add_bos);
  proto.set_chat_template(vocabulary.chat_template);
  *proto.mutable_scores() = {vocabulary.scores.begin(), vocabulary.scores.end()};
  proto.set_add_space_prefix(vocabulary.add_space_prefix);
  return proto;
}

absl::StatusOr<text::Vocabulary> FromProto(const cluster::v1::Tokenizer& proto) {
  if (proto.kinds_size() != proto.tokens_size()) {
    return InvalidField("kinds",
                        absl::StrCat(proto.kinds_size(), " kinds for ", proto.tokens_size(), " tokens"));
  }
  if (proto.scores_size() != 0 && proto.scores_size() != proto.tokens_size()) {
    return InvalidField("scores",
                        absl::StrCat(proto.scores_size(), " scores for ", proto.tokens_size(), " tokens"));
  }
  text::Vocabulary vocabulary;
  vocabulary.kinds.reserve(proto.kinds_size());
  for (const int kind : proto.kinds()) {
    if (kind < kFirstKind || kind > kLastKind)
      return InvalidField("kinds", absl::StrCat("unknown kind ", kind));
    vocabulary.kinds.push_back(static_cast<text::TokenKind>(kind - kFirstKind));
  }
  vocabulary.model = proto.model();
  vocabulary.pre = proto.pre();
  vocabulary.tokens.assign(proto.tokens().begin(), proto.tokens().end());
  vocabulary.merges.assign(proto.merges().begin(), proto.merges().end());
  vocabulary.bos = proto.bos();
  vocabulary.eos = proto.eos();
  vocabulary.unk = proto.unk();
  vocabulary.pad = proto.pad();
  vocabulary.eog.assign(proto.end_of_generation().begin(), proto.end_of_generation().end());
  vocabulary.add_bos = proto.add_bos();
  vocabulary.chat_template = proto.chat_template();
  vocabulary.scores.assign(proto.scores().begin(), proto.scores().end());
  vocabulary.add_space_prefix = proto.add_space_prefix();
  return vocabulary;
}

}  // namespace qanat::api
