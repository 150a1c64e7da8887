// `qanat inspect`, as people run it.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/gguf_builder.h"
#include "tests/fakes/safetensors_bytes.h"
#include "tests/fakes/temporary_file.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

Outcome Inspect(const std::string& path, const Flags& flags = {}) {
  Flags command = {Program("qanat"), "inspect", path};
  command.insert(command.end(), flags.begin(), flags.end());
  return RunToEnd(command);
}

json Report(const std::string& path, Flags flags = {}) {
  flags.push_back("--json");
  const Outcome outcome = Inspect(path, flags);
  EXPECT_EQ(outcome.exit, 0) << outcome.errors;
  return json::parse(outcome.output, nullptr, false);
}

std::vector<std::string> KeysOf(const json& report) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : report.items()) keys.push_back(key);
  return keys;
}

TEST(InspectTest, TellsWhatTheRealModelIs) {
  const json report = Report(ModelPath());
  EXPECT_EQ(report["format"], "gguf");
  EXPECT_EQ(report["version"], 3);
  EXPECT_EQ(report["architecture"], "llama");
  EXPECT_EQ(report["parameters"], 134515008);
  EXPECT_EQ(report["tensors"], 272);
  EXPECT_EQ(report["layers"], 30);
  EXPECT_EQ(report["context_length"], 8192);
  EXPECT_EQ(report["head_dim"], 64);
  EXPECT_EQ(report["kv_bytes_per_token"], 2 * 30 * 3 * 64 * 2);
  EXPECT_EQ(report["tied_embeddings"], true);
  EXPECT_EQ(report["tokenizer"]["kind"], "byte-level BPE");
  EXPECT_EQ(report["tokenizer"]["tokens"], 49152);
  EXPECT_EQ(report["tokenizer"]["eos"], json({{"id", 2}, {"token", "<|im_end|>"}}));
  EXPECT_EQ(report["chat_template"]["understood"], true);
  EXPECT_EQ(report["served"], true) << report["reason"];
  EXPECT_TRUE(report["tensor_list"].is_null());
  uint64_t bytes = 0;
  for (const json& type : report["types"]) bytes += type["bytes"].get<uint64_t>();
  EXPECT_EQ(bytes, report["weight_bytes"]);

  const Outcome text = Inspect(ModelPath());
  EXPECT_EQ(text.exit, 0);
  EXPECT_THAT(text.output, AllOf(HasSubstr("134515008 parameters in 272 tensors"), HasSubstr("8192 tokens"),
                                 HasSubstr("'<|im_end|>'"), HasSubstr("served          yes")));
}

TEST(InspectTest, SaysWhyAFileIsNotServed) {
  fakes::GgufBuilder builder = fakes::TinyLlama();
  builder.SetString("tokenizer.chat_template", "{{ a }}\n{% include 'x' %}");
  builder.AddTensor("odd.weight", {32});
  const fakes::TemporaryFile leftover(builder.Build());
  json report = Report(leftover.path());
  EXPECT_EQ(report["served"], false);
  EXPECT_EQ(report["reason"], "odd.weight: a tensor that this architecture has no use for");
  EXPECT_THAT(report["chat_template"]["problem"].get<std::string>(), HasSubstr("line 2: "));

  builder.SetString("general.architecture", "mamba");
  builder.SetU32("mamba.context_length", 77);
  const fakes::TemporaryFile unknown(builder.Build());
  report = Report(unknown.path());
  EXPECT_THAT(report["reason"].get<std::string>(), HasSubstr("'mamba' is not supported"));
  EXPECT_EQ(report["context_length"], 77);
  EXPECT_TRUE(report["kv_bytes_per_token"].is_null());
  EXPECT_EQ(report["tokenizer"]["tokens"], 8);

  builder = fakes::TinyLlama();
  builder.SetString("tokenizer.ggml.pre", "unheard-of");
  const fakes::TemporaryFile tokenizer(builder.Build());
  report = Report(tokenizer.path());
  EXPECT_EQ(report["reason"], report["tokenizer"]["problem"]);
  EXPECT_THAT(report["reason"].get<std::string>(), HasSubstr("unheard-of"));
}

TEST(InspectTest, SafeTensorsHaveTheSameKeys) {
  const fakes::TemporaryFile weights(
      fakes::SafeTensorsBytes(R"({"__metadata__":{"format":"pt"},)"
                              R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
                              R"("a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})",
                              20));
  const json report = Report(weights.path(), {"--tensors"});
  EXPECT_EQ(report["format"], "safetensors");
  EXPECT_EQ(report["parameters"], 7);
  EXPECT_EQ(report["metadata"], json({{"format", "pt"}}));
  EXPECT_EQ(report["served"], false);
  ASSERT_EQ(report["tensor_list"].size(), 2u);
  EXPECT_EQ(report["tensor_list"][1]["name"], "b");
  EXPECT_EQ(report["tensor_list"][1]["shape"], json({2, 3}));
  EXPECT_EQ(report["types"][0]["type"], "BF16") << "the largest first";
  const fakes::TemporaryFile model(fakes::TinyLlama().Build());
  EXPECT_EQ(KeysOf(Report(model.path(), {"--tensors"})), KeysOf(report));
  EXPECT_EQ(Report(model.path(), {"--tensors"})["tensor_list"].size(), 11u);
  EXPECT_THAT(
      Inspect(weights.path(), {"--tensors"}).output,
      AllOf(HasSubstr("metadata        format: pt"), HasSubstr("[2,3]"), HasSubstr("served          no: ")));
}

TEST(InspectTest, RefusesWhatIsNoModel) {
  const std::vector<std::byte> bytes(40, std::byte{'x'});
  const fakes::TemporaryFile neither(bytes);
  Outcome outcome = Inspect(neither.path());
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.errors, HasSubstr(neither.path() + ": magic: neither a GGUF nor a safetensors file"));
  EXPECT_EQ(Inspect(neither.path() + ".absent").exit, 3);
  fakes::GgufBuilder builder = fakes::TinyLlama();
  builder.SetU32("general.alignment", 3);
  const fakes::TemporaryFile malformed(builder.Build());
  outcome = Inspect(malformed.path());
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.errors, HasSubstr(malformed.path() + ": general.alignment: "));
  EXPECT_EQ(Inspect("").exit, 3);
}

TEST(InspectTest, NamesOfAFileForgeNoLine) {
  fakes::GgufBuilder builder = fakes::TinyLlama();
  builder.SetString("general.name", "a\nserved          yes\xff");
  const fakes::TemporaryFile file(builder.Build());
  EXPECT_THAT(Inspect(file.path()).output, HasSubstr("a\\nserved          yes"));
  EXPECT_TRUE(Report(file.path()).is_object());
}

}  // namespace
}  // namespace qanat::integration
