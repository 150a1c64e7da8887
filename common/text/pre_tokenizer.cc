#include "common/text/pre_tokenizer.h"

#include <cstdint>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include "pcre2.h"

namespace qanat::text {
namespace {

// Unicode's White_Space, inside a class. Not \s: PCRE2's also has U+180E, which models' own splitters have
// not.
#define SPACE "\\p{Z}\\t-\\r\\x{85}"

// GPT-2's words.
#define GPT2_WORDS                                                                                  \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE \
  "])|[" SPACE "]+"

// Those of later families, which differ in how many digits make a word.
#define LATER_WORDS(digits)                                                                     \
  "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
  "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

struct Rules {
  const char* name;
  bool whole_words_first;
  std::vector<const char*> patterns;
};

const std::vector<Rules>& AllRules() {
  static const auto& rules = *new std::vector<Rules>{
      {"gpt-2", false, {GPT2_WORDS}},
      // Digits stand alone before words are looked for, so that a blank before a digit is a word of its own
      // and never the beginning of one.
      {"smollm", false, {"\\p{N}", GPT2_WORDS}},
      // Llama 3.
      {"llama-bpe", true, {LATER_WORDS("\\p{N}{1,3}")}},
      // Qwen 2 to 3.
      {"qwen2", false, {LATER_WORDS("\\p{N}")}},
  };
  return rules;
}

#undef LATER_WORDS
#undef GPT2_WORDS
#undef SPACE

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;

}  // namespace

// What one thread needs while it matches.
class PreTokenizer::MatchSpace {
 public:
  MatchSpace() : data_(pcre2_match_data_create(1, nullptr)) {}
  pcre2_match_data* data() { return data_.get(); }
  size_t begin() const { return pcre2_get_ovector_pointer(data_.get())[0]; }
  size_t end() const { return pcre2_get_ovector_pointer(data_.get())[1]; }

 private:
  MatchData data_;
};

class PreTokenizer::Pattern {
 public:
  explicit Pattern(const char* pattern) : context_(pcre2_match_context_create(nullptr)) {
    int error = 0;
    size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    QANAT_CHECK(code_ != nullptr) << "pattern error " << error << " at " << offset << " of " << pattern;
    // Where the system forbids making code at run time the interpreter gives the same words, only slower.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    // The default limit would let the length of a run of blanks decide how it is cut.
    pcre2_set_match_limit(context_.get(), std::numeric_limits<uint32_t>::max());
  }

  // The first match at or behind `from`, in `space`. False when there is none.
  bool Find(std::string_view text, size_t from, MatchSpace& space) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK, space.data(), context_.get()) > 0;
  }

 private:
  Code code_;
  MatchContext context_;
};

absl::StatusOr<PreTokenizer> PreTokenizer::Create(std::string_view name) {
  constexpr char kKey[] = "tokenizer.ggml.pre";
  std::string known;
  for (const Rules& rules : AllRules()) {
    if (name != rules.name) {
      absl::StrAppend(&known, known.empty() ? "" : ", ", rules.name);
      continue;
    }
    std::vector<std::unique_ptr<const Pattern>> patterns;
    for (const char* pattern : rules.patterns) patterns.push_back(std::make_unique<Pattern>(pattern));
    return PreTokenizer(std::move(patterns), rules.whole_words_first);
  }
  const std::string shown = absl::Utf8SafeCHexEscape(std::string(name.substr(0, 40)));
  return WithField(absl::UnimplementedError(absl::StrCat(
                       kKey, ": \"", shown, "\" is not known to this build, which knows ", known)),
                   kKey);
}

PreTokenizer::PreTokenizer(std::vector<std::unique_ptr<const Pattern>> patterns, bool whole_words_first)
    : patterns_(std::move(patterns)), whole_words_first_(whole_words_first) {}

PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::Split(std::string_view text, absl::FunctionRef<void(std::string_view)> word) const {
  MatchSpace space;
  SplitFrom(0, text, space, word);
}

void PreTokenizer::SplitFrom(size_t level, std::string_view text, MatchSpace& space,
                             absl::FunctionRef<void(std::string_view)> word) const {
  const auto give = [&](std::string_view piece) {
    if (piece.empty()) return;
    if (level + 1 == patterns_.size()) {
      word(piece);
    } else {
      SplitFrom(level + 1, piece, space, word);
    }
  };
  size_t at = 0;
  while (at < text.size() && patterns_[level]->Find(text, at, space)) {
    const size_t begin = space.begin();
    const size_t end = space.end();
    give(text.substr(at, begin - at));
    give(text.substr(begin, end - begin));
    at = end;
  }
  give(text.substr(at));
}

}  // namespace qanat::text
