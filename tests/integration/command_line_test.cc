// The programs as people run them.
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/gguf_builder.h"
#include "tests/fakes/temporary_file.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

Outcome Router(const Flags& flags) {
  Flags command = {Program("qanat-router")};
  command.insert(command.end(), flags.begin(), flags.end());
  return RunToEnd(command);
}

Outcome Qanat(const Flags& flags, const std::string& input = "") {
  Flags command = {Program("qanat")};
  command.insert(command.end(), flags.begin(), flags.end());
  return RunToEnd(command, input);
}

TEST(RouterCommandLineTest, RefusesByNameWhatIsNotBuilt) {
  const std::string workers = "--workers=127.0.0.1:1";
  const struct {
    Flags flags;
    const char* named;
  } cases[] = {
      {{workers, "--policy=fastest"}, "fastest"},
      {{workers, "--workers-file=x"}, "--workers-file"},
      {{workers, "--workers-dns=x:1"}, "--workers-dns"},
      {{workers, "--http-listen=127.0.0.1:0"}, "--http-listen"},
      {{workers, "--tenants-file=x"}, "--tenants-file"},
      {{workers, "--cluster-token-file=x"}, "--cluster-token-file"},
      {{workers, "--queue-requests=0"}, "--queue-requests"},
      {{workers, "--queue-tokens=many"}, "--queue-tokens"},
      {{workers, "--log-level=loud"}, "--log-level"},
      {{"--workers=nowhere"}, "nowhere"},
      {{"--workers=:1"}, "':1'"},
      {{"--workers=a:1,"}, "''"},
      {{"--workers=a:http"}, "a:http"},
      {{"--workers=a:0"}, "a:0"},
      {{"--workers=a:65536"}, "a:65536"},
      {{"--workers=a:1, b:2,a:01 "}, "'a:1' is named twice"},
      {{}, "--workers"},
  };
  for (const auto& one : cases) {
    const Outcome outcome = Router(one.flags);
    EXPECT_EQ(outcome.exit, 2) << one.named;
    EXPECT_THAT(outcome.errors, HasSubstr(one.named));
  }
}

TEST(RouterCommandLineTest, PrintsAConfigThatItReads) {
  const Outcome first = Router({"--print-config", "--workers=a:1,b:2", "--queue-requests=77"});
  EXPECT_EQ(first.exit, 0);
  EXPECT_THAT(first.output, HasSubstr("queue-requests=77"));
  const std::string path = testing::TempDir() + "qanat-router-config";
  std::ofstream(path) << first.output;
  const Outcome second = Router({"--config", path, "--print-config"});
  EXPECT_EQ(second.exit, 0) << second.errors;
  EXPECT_EQ(second.output, first.output);
}

TEST(RouterCommandLineTest, HelpNamesEveryFlagAndItsVariable) {
  const Outcome outcome = Router({"--help"});
  EXPECT_EQ(outcome.exit, 0);
  for (const char* name :
       {"workers", "listen", "metrics-listen", "health-listen", "http-listen", "policy", "queue-requests",
        "queue-tokens", "queue-bytes", "tenants-file", "hash-key-file"}) {
    EXPECT_THAT(outcome.output, HasSubstr(std::string("--") + name));
  }
  EXPECT_THAT(outcome.output, HasSubstr("QANAT_QUEUE_REQUESTS"));
  EXPECT_THAT(Router({"--version"}).output, StartsWith("qanat-router "));
}

TEST(RouterCommandLineTest, AnAddressThatIsTakenIsSaid) {
  const Server router = StartRouter({"127.0.0.1:1"});
  const Outcome outcome = Router({"--workers=127.0.0.1:1", "--listen", router.address});
  EXPECT_EQ(outcome.exit, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("cannot listen on"));
}

TEST(WorkerCommandLineTest, PrintsAConfigThatItReads) {
  const std::string worker = Program("qanat-worker");
  const Outcome first = RunToEnd({worker, "--print-config", "--kv-blocks=77"});
  EXPECT_EQ(first.exit, 0);
  EXPECT_THAT(first.output, HasSubstr("kv-blocks=77"));
  const fakes::TemporaryFile file(first.output);
  const Outcome second = RunToEnd({worker, "--config", file.path(), "--print-config"});
  EXPECT_EQ(second.exit, 0) << second.errors;
  EXPECT_EQ(second.output, first.output);
}

TEST(WorkerCommandLineTest, AMalformedModelEndsItByFileKeyAndReason) {
  const struct {
    std::function<void(fakes::GgufBuilder&)> spoil;
    const char* said;
  } cases[] = {
      {[](fakes::GgufBuilder& b) { b.magic = "GGML"; }, ": magic: not a GGUF file"},
      {[](fakes::GgufBuilder& b) { b.SetU32("general.alignment", 0); }, ": general.alignment: 0 is no power"},
      {[](fakes::GgufBuilder& b) { b.num_tensors = uint64_t{1} << 63; },
       ": tensor count: 9223372036854775808"},
      {[](fakes::GgufBuilder& b) { b.SetU32("tokenizer.ggml.eos_token_id", 0xffffffff); },
       ": tokenizer.ggml.eos_token_id: id 4294967295 is outside"},
      {[](fakes::GgufBuilder& b) { b.SetString("tokenizer.ggml.pre", "unheard-of"); },
       ": tokenizer.ggml.pre: "},
  };
  for (const auto& one : cases) {
    fakes::GgufBuilder builder = fakes::TinyLlama();
    one.spoil(builder);
    const fakes::TemporaryFile file(builder.Build());
    const Outcome outcome = RunToEnd({Program("qanat-worker"), "--model", file.path(), "--listen",
                                      "127.0.0.1:0", "--threads", "1", "--kv-blocks", "16"});
    EXPECT_EQ(outcome.exit, 1) << one.said;
    EXPECT_THAT(outcome.errors, HasSubstr(file.path() + one.said));
    EXPECT_EQ(outcome.output, "") << "it said that it is ready";
  }
}

Outcome Worker(const std::string& model, const Flags& flags) {
  Flags command = {Program("qanat-worker"), "--model", model, "--listen", "127.0.0.1:0"};
  command.insert(command.end(), flags.begin(), flags.end());
  return RunToEnd(command);
}

TEST(WorkerCommandLineTest, RefusesByNameWhatNoMachineCouldDo) {
  const fakes::TemporaryFile file(fakes::TinyLlama().Build());
  const struct {
    Flags flags;
    const char* named;
  } cases[] = {
      {{"--max-batch-tokens=8M"}, "--max-batch-tokens: must be between 1 and 65536, got 8388608"},
      {{"--max-seqs=100K", "--max-batch-tokens=100K"}, "--max-seqs: must be between 1 and 65536"},
      {{"--max-seqs=2147483647", "--max-batch-tokens=2147483647"}, "--max-seqs"},
      {{"--device=sim", "--kv-blocks=2147483647"}, "--kv-blocks: must be between 1 and 4194304"},
      {{"--queue-requests=2147483647"}, "--queue-requests"},
      {{"--kv-blocks=16", "--kv-memory=1G"}, "--kv-memory: the pool's size is given by --kv-blocks already"},
      {{"--device=sim", "--kernels=bogus"}, "--kernels=bogus: must be auto, "},
      {{"--context-length=1"}, "--context-length: must be at least 2"},
  };
  for (const auto& one : cases) {
    const Outcome outcome = Worker(file.path(), one.flags);
    EXPECT_EQ(outcome.exit, 2) << one.named;
    EXPECT_THAT(outcome.errors, HasSubstr(one.named));
  }
  const Outcome outcome = Worker(file.path(), {"--context-length=65"});
  EXPECT_EQ(outcome.exit, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("--context-length: must be between 2 and the model's 64, got 65"));
}

TEST(WorkerCommandLineTest, AShorterContextIsServedAndTold) {
  for (const char* device : {"--device=cpu", "--device=sim"}) {
    const Server worker = StartWorker({device, "--context-length=100"});
    const Outcome models = Qanat({"models", "--target", worker.address});
    ASSERT_EQ(models.exit, 0) << models.errors;
    EXPECT_THAT(models.output, HasSubstr("context 100")) << device;
    Client client(worker.address);
    EXPECT_TRUE(client.Generate(PromptOf(99, 1, 1)).status.ok());
    const Answer refused = client.Generate(PromptOf(100, 1, 1));
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument) << refused.status;
    const Answer clipped = client.Generate(PromptOf(90, 1, 50));
    EXPECT_TRUE(clipped.status.ok()) << clipped.status;
    EXPECT_LE(clipped.token_ids.size(), 10u);
    EXPECT_GT(clipped.token_ids.size(), 0u);
  }
}

TEST(QanatCommandLineTest, SaysWhatFailedAndWhatMayHelp) {
  const Outcome nobody = Qanat({"generate", "--target", "127.0.0.1:1", "hi"});
  EXPECT_EQ(nobody.exit, 4);
  EXPECT_THAT(nobody.errors, HasSubstr("is a router running there?"));
  EXPECT_EQ(Qanat({"generate"}).exit, 2);
  EXPECT_EQ(Qanat({"dance"}).exit, 2);
  EXPECT_EQ(Qanat({"generate", "--timeout", "soon", "hi"}).exit, 2);
  EXPECT_THAT(Qanat({"--help"}).output, HasSubstr("Exit status"));
}

TEST(QanatCommandLineTest, BenchEngineNamesWhatItMeasured) {
  const Outcome outcome = Qanat({"bench", "engine", "--model", ModelPath(), "--threads", "1", "--rows",
                                 "prefill", "--rounds", "1", "--json"});
  ASSERT_EQ(outcome.exit, 0) << outcome.errors;
  const nlohmann::json report = nlohmann::json::parse(outcome.output);
  const std::string model = report["model"].get<std::string>();
  EXPECT_THAT(ModelPath(), EndsWith("/" + model));
  EXPECT_EQ(report["model_fingerprint"].get<std::string>().size(), 32u);
  EXPECT_EQ(report["threads"], 1);
  EXPECT_THAT(Qanat({"--version"}).output, HasSubstr(report["version"].get<std::string>()));
  EXPECT_GT(report["rows"][0]["tokens_per_second"], 0);
}

class QanatCommandTest : public testing::Test {
 protected:
  // Of a running cluster.
  Outcome Ask(Flags flags, const std::string& input = "") {
    flags.insert(flags.end(), {"--target", cluster_.router().address});
    return Qanat(flags, input);
  }

  Cluster cluster_{1};
};

TEST_F(QanatCommandTest, GeneratesTokenizesAndLists) {
  const Flags flags = {"generate", "--max-tokens", "8", "--temperature", "0"};
  Flags with_prompt = flags;
  with_prompt.push_back("The capital of France is");
  const Outcome text = Ask(with_prompt);
  EXPECT_EQ(text.exit, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("Paris"));

  // From standard input, as JSON: a message a line.
  Flags as_json = flags;
  as_json.insert(as_json.end(), {"--json", "--token-ids", "-"});
  const Outcome json = Ask(as_json, "The capital of France is");
  EXPECT_EQ(json.exit, 0) << json.errors;
  Answer answer;
  std::istringstream lines(json.output);
  for (std::string line; std::getline(lines, line);) {
    v1::GenerateResponse response;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &response).ok()) << line;
    Append(response, answer);
  }
  EXPECT_EQ(answer.text, text.output);
  EXPECT_TRUE(answer.in_order);
  EXPECT_EQ(answer.usage.completion_tokens(), 8);

  EXPECT_EQ(Ask({"tokenize", "hello  12"}).output, "28120 256 33 34\n");
  EXPECT_THAT(Ask({"models"}).output, HasSubstr("context 8192"));
  EXPECT_THAT(Ask({"cluster"}).output, HasSubstr("ready"));
  EXPECT_EQ(Ask({"cluster", "--watch", "--interval", "0s"}).exit, 2);
  const Outcome chat = Ask({"generate", "--chat", "--system", "Be brief.", "--max-tokens", "4", "Hi"});
  EXPECT_EQ(chat.exit, 0) << chat.errors;
  EXPECT_FALSE(chat.output.empty());
}

TEST_F(QanatCommandTest, EndsBeforeAStop) {
  Flags flags = {"generate", "--max-tokens", "12", "--temperature", "0", "Here is the English alphabet: ABC"};
  const Outcome whole = Ask(flags);
  ASSERT_EQ(whole.exit, 0) << whole.errors;
  const size_t at = whole.output.find("FG");
  ASSERT_NE(at, std::string::npos) << whole.output;
  flags.insert(flags.begin() + 1, {"--stop", "FG", "--stop", "never said"});
  const Outcome stopped = Ask(flags);
  EXPECT_EQ(stopped.exit, 0) << stopped.errors;
  EXPECT_EQ(stopped.output, whole.output.substr(0, at));
}

TEST_F(QanatCommandTest, TakesEveryParameterOfSamplingAndStopping) {
  // "A" and "B" are tokens 49 and 50.
  const Flags flags = {"generate",
                       "--temperature",
                       "0",
                       "--allow-token",
                       "49",
                       "--allow-token",
                       "50",
                       "--logit-bias",
                       "49=100",
                       "--frequency-penalty",
                       "2",
                       "--presence-penalty",
                       "0.5",
                       "--repetition-penalty",
                       "1.5",
                       "--min-tokens",
                       "2",
                       "--stop-token",
                       "50",
                       "--include-stop",
                       "--max-tokens",
                       "3",
                       "The letter"};
  const Outcome outcome = Ask(flags);
  EXPECT_EQ(outcome.exit, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "AAA");
  EXPECT_EQ(Ask({"generate", "--logit-bias", "49:1", "hi"}).exit, 2);
  EXPECT_THAT(Ask({"generate", "--stop-token", "49152", "hi"}).errors,
              HasSubstr("field: stopping.stop_token_ids[0]"));
}

TEST_F(QanatCommandTest, GivesSeveralAnswersAndTheirLogprobs) {
  const Flags flags = {"generate", "--seed", "4", "--max-tokens", "6", "--n", "3", "Once upon a time"};
  const Outcome outcome = Ask(flags);
  EXPECT_EQ(outcome.exit, 0) << outcome.errors;
  for (const char* mark : {"[0] ", "[1] ", "[2] "}) EXPECT_THAT(outcome.output, HasSubstr(mark));
  Flags as_json = flags;
  as_json.insert(as_json.end() - 1, {"--json", "--final-only", "--logprobs", "2", "--prompt-logprobs", "0"});
  const Outcome json = Ask(as_json);
  EXPECT_EQ(json.exit, 0) << json.errors;
  std::istringstream lines(json.output);
  int messages = 0;
  int prompt_logprobs = 0;
  for (std::string line; std::getline(lines, line); ++messages) {
    v1::GenerateResponse response;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &response).ok()) << line;
    EXPECT_EQ(response.logprobs_size(), 6);
    EXPECT_EQ(response.logprobs(0).alternatives_size(), 2);
    EXPECT_THAT(outcome.output, HasSubstr(response.text()));
    prompt_logprobs += response.prompt_logprobs_size();
  }
  EXPECT_EQ(messages, 3);
  EXPECT_EQ(prompt_logprobs, 3) << "of four tokens, once";
}

TEST_F(QanatCommandTest, NamesTheFieldAtFault) {
  const Outcome outcome = Ask({"generate", "--top-p", "1.5", "hi"});
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("field: sampling.top_p"));
  EXPECT_EQ(Ask({"generate", "--model", "another", "hi"}).exit, 3);
  EXPECT_EQ(Ask({"generate", "--timeout", "1ms", "--max-tokens", "500", "hi"}).exit, 5);
}

}  // namespace
}  // namespace qanat::integration
