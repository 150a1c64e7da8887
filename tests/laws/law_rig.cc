#include "tests/laws/law_rig.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "spdlog/spdlog.h"
#include "tests/fakes/byte_level_vocabulary.h"
#include "tests/worker/service/naive_answer.h"

namespace qanat::service {
namespace {

constexpr char kFire[] = "\xF0\x9F\x94\xA5";

// Control tokens 0 to 2 (2 ends an answer), single bytes, and tokens that hold borders of characters and of
// stops. No merges: prompts come as ids.
text::Vocabulary TwentyTokens() {
  text::Vocabulary vocabulary = fakes::ControlTokens();
  for (const char* bytes : {"a", "b", "c", "ab", "abc", "ca", "DEF", "D", "\xC3", "\xA9", "a\xC3", "\xF0",
                            "\x9F", "\x94", "\xA5", "\xF0\x9F", "\xA5 "}) {
    fakes::AddToken(vocabulary, fakes::ToByteAlphabet(bytes), text::TokenKind::kNormal);
  }
  return vocabulary;
}

engine::EngineOptions EngineOptionsOf(const LawOptions& options) {
  engine::EngineOptions out;
  out.context_length = options.context_length;
  out.num_blocks = options.num_blocks;
  out.max_seqs = options.max_seqs;
  out.queue_requests = options.queue_requests;
  out.queue_tokens = options.queue_tokens;
  out.max_batch_tokens = 64;
  out.chunk_tokens = 24;
  return out;
}

api::WorkerInfo InfoOf(const LawOptions& options, const text::Tokenizer& tokenizer) {
  api::WorkerInfo info;
  info.model = {"tiny", options.context_length, tokenizer.size(), 16, int64_t{16} * options.num_blocks};
  info.numerics_id = "fake-1";
  return info;
}

// The reader polls.
class NobodyListens final : public GenerationListener {
 public:
  void OnNews(const std::shared_ptr<Generation>&) override {}
};

std::vector<std::string> DrawStops(Random& random) {
  static const std::vector<std::string> kPieces = {"a", "b",  "c", "ab",           "\xC3\xA9", kFire,
                                                   "D", "EF", "E", "\xEF\xBF\xBD", "abc"};
  std::vector<std::string> stops;
  for (int32_t i = Pick(random, 4); i > 0; --i) {
    std::string stop;
    for (int32_t j = 1 + Pick(random, 4); j > 0; --j) {
      stop += kPieces[Pick(random, static_cast<int32_t>(kPieces.size()))];
    }
    stops.push_back(std::move(stop));
  }
  return stops;
}

void DrawSampling(Random& random, v1::SamplingParams& sampling) {
  if (!OneIn(random, 4)) sampling.set_seed(random());
  if (OneIn(random, 3)) sampling.set_temperature(0);
  if (OneIn(random, 3)) sampling.set_n(1 + Pick(random, 4));
  if (OneIn(random, 5)) sampling.set_presence_penalty(0.5f);
  if (OneIn(random, 5)) sampling.set_repetition_penalty(1.3f);
  if (OneIn(random, 5)) (*sampling.mutable_logit_bias())[3] = 1;
}

void DrawStopping(Random& random, v1::StoppingParams& stopping) {
  if (!OneIn(random, 4)) stopping.set_max_tokens(1 + Pick(random, 30));
  if (OneIn(random, 3)) {
    const int32_t most = stopping.has_max_tokens() ? stopping.max_tokens() : 20;
    stopping.set_min_tokens(Pick(random, most + 1));
  }
  if (OneIn(random, 2)) {
    for (std::string& stop : DrawStops(random)) stopping.add_stop(std::move(stop));
  }
  if (OneIn(random, 4)) stopping.add_stop_token_ids(4 + Pick(random, 3));
  stopping.set_ignore_eos(OneIn(random, 4));
  stopping.set_include_stop(OneIn(random, 4));
}

void DrawOutput(Random& random, v1::OutputOptions& output) {
  output.set_token_ids(!OneIn(random, 3));
  if (OneIn(random, 3)) output.set_logprobs(Pick(random, 6));
  if (OneIn(random, 5)) output.set_prompt_logprobs(Pick(random, 6));
  if (OneIn(random, 4)) output.set_delivery(v1::DELIVERY_FINAL_ONLY);
}

// The request as the engine should be given it.
engine::Request EngineRequest(const v1::GenerateRequest& from, int32_t context_length, TokenId eos) {
  engine::Request request;
  request.prompt.assign(from.token_ids().ids().begin(), from.token_ids().ids().end());
  if (from.sampling().has_temperature()) request.sampling.temperature = from.sampling().temperature();
  request.seed = from.sampling().seed();
  const auto room = context_length - static_cast<int32_t>(request.prompt.size());
  request.max_tokens = from.stopping().has_max_tokens() ? std::min(from.stopping().max_tokens(), room) : room;
  const auto& stop_ids = from.stopping().stop_token_ids();
  request.end_tokens.assign(stop_ids.begin(), stop_ids.end());
  sampling::LogitRules rules;
  rules.presence_penalty = from.sampling().presence_penalty();
  if (from.sampling().has_repetition_penalty()) {
    rules.repetition_penalty = from.sampling().repetition_penalty();
  }
  rules.bias.assign(from.sampling().logit_bias().begin(), from.sampling().logit_bias().end());
  rules.min_tokens = from.stopping().min_tokens();
  rules.late = request.end_tokens;
  rules.late.push_back(eos);
  if (rules.any()) request.rules = std::make_shared<const sampling::LogitRules>(rules);
  if (!from.stopping().ignore_eos()) request.end_tokens.push_back(eos);
  return request;
}

// Which of the stops that fit the end of `text` was found: the longest, of equal ones the first.
std::string StopAt(const std::string& text, const v1::StoppingParams& stopping) {
  std::string found;
  for (const std::string& stop : stopping.stop()) {
    if (stop.size() > found.size() && text.ends_with(stop)) found = stop;
  }
  return found;
}

}  // namespace

LawRig::LawRig(LawOptions from)
    : options(from),
      tokenizer(*text::Tokenizer::Create(TwentyTokens())),
      runner(options.num_blocks, 16, tokenizer->size()),
      metrics(exporter, "tiny"),
      publisher(1, {}, clock, [] { return api::Load{}; }),
      engine(std::make_unique<engine::Engine>(EngineOptionsOf(options),
                                              hash::BlockHasher(hash::kPublicKey, "f00d", 16), runner, clock,
                                              metrics, &publisher)),
      info(InfoOf(options, *tokenizer)),
      stall_sweeper(std::chrono::seconds(30), clock),
      text_pool(1, 2),
      stream_pool(1, 2),
      context{*engine,
              *tokenizer,
              nullptr,
              info,
              hash::kPublicKey,
              clock,
              text_pool,
              stream_pool,
              metrics,
              publisher,
              live,
              stall_sweeper,
              [this] { return ++drawn_seed; }} {
  spdlog::set_level(spdlog::level::off);
}

LawRig::~LawRig() = default;

v1::GenerateRequest LawRig::Draw(Random& random, int32_t max_prompt) const {
  v1::GenerateRequest request;
  // Few beginnings, so that prompts share blocks; the longest ones are as long as the context allows.
  const int32_t length = OneIn(random, 16) ? options.context_length - 1 : 1 + Pick(random, max_prompt);
  const int32_t family = Pick(random, 4);
  for (int32_t i = 0; i < length; ++i) {
    const bool own = i + 4 > length;
    request.mutable_token_ids()->add_ids(own ? Pick(random, tokenizer->size())
                                             : (i * (family + 3) + family) % tokenizer->size());
  }
  if (OneIn(random, 2)) request.set_request_id("label " + std::to_string(Pick(random, 3)));
  if (OneIn(random, 8)) request.set_bypass_prefix_cache(true);
  request.set_priority(static_cast<v1::Priority>(Pick(random, v1::Priority_ARRAYSIZE)));
  DrawSampling(random, *request.mutable_sampling());
  DrawStopping(random, *request.mutable_stopping());
  DrawOutput(random, *request.mutable_output());
  return request;
}

std::unique_ptr<LawCall> LawRig::Start(v1::GenerateRequest request, std::optional<Duration> timeout) {
  auto call = std::make_unique<LawCall>();
  call->request = std::move(request);
  call->generation = std::make_shared<Generation>(context, std::make_shared<NobodyListens>());
  Call made;
  made.request = std::shared_ptr<const v1::GenerateRequest>(std::shared_ptr<void>(), &call->request);
  made.cache_namespace = hash::DeriveNamespace(hash::kPublicKey, "default", call->request.cache_salt());
  if (timeout.has_value()) made.deadline = clock.Now() + *timeout;
  call->generation->Start(std::move(made));
  if (call->generation->accepted().has_value()) {
    call->first_sequence = last_sequence_ + 1;
    last_sequence_ += static_cast<uint64_t>(std::max(1, call->request.sampling().n()));
  }
  return call;
}

bool LawRig::Step() {
  const bool worked = engine->Step();
  engine->CheckInvariants();
  clock.Advance(std::chrono::milliseconds(1));
  return worked;
}

bool LawRig::Read(LawCall& call) {
  if (call.ended) return false;
  Generation& generation = *call.generation;
  generation.Advance();
  const bool last = generation.end().has_value();
  if (!last && !generation.HasResponse()) return false;
  if (generation.HasResponse()) call.heard.messages.push_back(generation.TakeResponse());
  if (last) {
    call.ended = true;
    call.heard.status = *generation.end();
    generation.Release();
    call.generation.reset();
  }
  return true;
}

void LawRig::Finish(LawCall& call) {
  while (!call.ended) {
    Step();
    ReadAll(call);
  }
}

Heard LawRig::Ask(v1::GenerateRequest request) {
  const auto call = Start(std::move(request));
  Finish(*call);
  return call->heard;
}

void LawRig::Disturb(Random& random, LawCall& call) {
  call.disturbed = true;
  if (OneIn(random, 2) || call.first_sequence == 0) {
    return call.generation->Abort(engine::EndReason::kCancelled, CallerLeft());
  }
  const auto choices = static_cast<uint64_t>(std::max(1, call.request.sampling().n()));
  runner.FailNextRowOf(SequenceId{call.first_sequence + random() % choices});
}

std::vector<std::unique_ptr<LawCall>> LawRig::Serve(Random& random, int32_t count, bool disturb) {
  std::vector<std::unique_ptr<LawCall>> calls;
  std::vector<LawCall*> open;
  while (static_cast<int32_t>(calls.size()) < count || !open.empty()) {
    if (static_cast<int32_t>(calls.size()) < count && open.size() < 8 && OneIn(random, 2)) {
      std::optional<Duration> timeout;
      if (disturb && OneIn(random, 8)) timeout = std::chrono::milliseconds(Pick(random, 40));
      calls.push_back(Start(Draw(random), timeout));
      calls.back()->disturbed = timeout.has_value();
      open.push_back(calls.back().get());
    }
    if (disturb && !open.empty() && OneIn(random, 24)) {
      LawCall& call = *open[random() % open.size()];
      if (!call.ended) Disturb(random, call);
    }
    if (!OneIn(random, 3)) Step();
    for (LawCall* call : open) {
      if (OneIn(random, 3)) Read(*call);
    }
    open.erase(std::remove_if(open.begin(), open.end(), [](const LawCall* call) { return call->ended; }),
               open.end());
  }
  return calls;
}

ExpectedChoice LawRig::Expect(const v1::GenerateRequest& from, uint32_t choice) const {
  const engine::Request request = EngineRequest(from, options.context_length, tokenizer->eos());
  const std::vector<TokenId> drawn =
      fakes::FakeModelRunner::Answer(request, options.context_length, tokenizer->size(), choice);
  AnswerOptions answer;
  answer.stops.assign(from.stopping().stop().begin(), from.stopping().stop().end());
  answer.stop_token_ids.assign(from.stopping().stop_token_ids().begin(),
                               from.stopping().stop_token_ids().end());
  answer.min_tokens = from.stopping().min_tokens();
  answer.include_stop = from.stopping().include_stop();
  const NaiveAnswer naive = AnswerNaively(*tokenizer, drawn, answer);

  ExpectedChoice expected;
  expected.text = naive.text;
  expected.ids.assign(drawn.begin(), drawn.begin() + naive.num_tokens);
  const bool model_end = !from.stopping().ignore_eos() && expected.ids.back() == tokenizer->eos();
  const bool stopped = naive.by_string || naive.by_token || model_end;
  expected.finish.set_reason(stopped ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  if (naive.by_token) expected.finish.set_stop_token_id(expected.ids.back());
  if (naive.by_string) {
    answer.include_stop = true;
    expected.finish.set_stop(StopAt(AnswerNaively(*tokenizer, drawn, answer).text, from.stopping()));
  }

  std::vector<TokenId> known = request.prompt;
  const absl::Span<const TokenId> prompt = request.prompt;
  for (size_t i = 1; from.output().has_prompt_logprobs() && choice == 0 && i < prompt.size(); ++i) {
    expected.prompt_scores.push_back(fakes::FakeModelRunner::Score(
        prompt.first(i), prompt[i], from.output().prompt_logprobs(), tokenizer->size()));
  }
  for (const TokenId id : expected.ids) {
    if (from.output().has_logprobs()) {
      expected.scores.push_back(
          fakes::FakeModelRunner::Score(known, id, from.output().logprobs(), tokenizer->size()));
    }
    known.push_back(id);
  }
  return expected;
}

bool LawRig::IsIdle() const {
  const engine::EngineSnapshot now = engine->Snapshot();
  return now.running == 0 && now.waiting == 0 && now.paused == 0 && now.referenced_blocks == 0;
}

}  // namespace qanat::service
