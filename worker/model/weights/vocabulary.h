// What a GGUF file tells of its tokens.
#pragma once

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

// Reads the keys tokenizer.*. A vocabulary that comes back is consistent in itself and with the embedding:
// one kind a token, every id inside, every merge made of tokens, as many tokens as token_embd.weight has
// rows. add_bos is what the file says; where it is silent, true for SentencePiece and for llama-bpe, as those
// models were trained; add_space_prefix likewise, true for SentencePiece. Errors as GgufFile's, naming the
// key at fault. Takes milliseconds. eog holds the ends that the file names, and every control or
// user-defined token that is a well-known end marker ("<end_of_turn>", "<|im_end|>", ...).
absl::StatusOr<text::Vocabulary> ReadVocabulary(const GgufFile& file);

}  // namespace qanat::model
