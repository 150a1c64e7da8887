#include "common/api/worker_info.h"

#include "common/base/error.h"
#include "gtest/gtest.h"

namespace qanat::api {
namespace {

WorkerInfo Info() {
  WorkerInfo info;
  info.model = {"tiny", 128, 1000, 16, 320};
  info.architecture = "llama";
  info.quantization = "Q4_1";
  info.chat_template = true;
  info.model_fingerprint = "f00d";
  info.numerics_id = "cpu-1";
  info.hash_check = 0xfedcba9876543210;
  info.epoch = 0x0123456789abcdef;
  info.max_requests = 320;
  info.version = "0.1.0";
  return info;
}

TEST(WorkerInfoTest, GoesThereAndBack) {
  const WorkerInfo info = Info();
  const auto back = FromProto(ToProto(info));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->model.id, info.model.id);
  EXPECT_EQ(back->model.context_length, info.model.context_length);
  EXPECT_EQ(back->model.vocab_size, info.model.vocab_size);
  EXPECT_EQ(back->model.block_size, info.model.block_size);
  EXPECT_EQ(back->model.pool_tokens, info.model.pool_tokens);
  EXPECT_EQ(back->architecture, info.architecture);
  EXPECT_EQ(back->quantization, info.quantization);
  EXPECT_EQ(back->chat_template, info.chat_template);
  EXPECT_EQ(back->model_fingerprint, info.model_fingerprint);
  EXPECT_EQ(back->numerics_id, info.numerics_id);
  EXPECT_EQ(back->hash_check, info.hash_check);
  EXPECT_EQ(back->epoch, info.epoch);
  EXPECT_EQ(back->max_requests, info.max_requests);
  EXPECT_EQ(back->version, info.version);
}

TEST(WorkerInfoTest, NumericsTellDevicesAndModelsApart) {
  const std::string model = "0123456789abcdef0123456789abcdef", other = "1123456789abcdef0123456789abcdef";
  EXPECT_EQ(NumericsId("k1-avx2-bf16kv", model), "k1-avx2-bf16kv-0123456789abcdef");
  EXPECT_NE(NumericsId("k1-avx2-bf16kv", model), NumericsId("k1-avx2-bf16kv", other));
  EXPECT_NE(NumericsId("k1-avx2-bf16kv", model), NumericsId("k1-avx512-bf16kv", model));
}

TEST(WorkerInfoTest, RefusesNumbersThatNoWorkerHas) {
  using Proto = cluster::v1::GetInfoResponse;
  const auto field_at_fault = [](void (Proto::*set)(int32_t), int32_t value) {
    Proto proto = ToProto(Info());
    (proto.*set)(value);
    return FieldOf(FromProto(proto).status());
  };
  EXPECT_EQ(field_at_fault(&Proto::set_context_length, 1), "context_length");
  EXPECT_EQ(field_at_fault(&Proto::set_vocab_size, 0), "vocab_size");
  EXPECT_EQ(field_at_fault(&Proto::set_block_size, 0), "block_size");
  EXPECT_EQ(field_at_fault(&Proto::set_block_size, 1 << 30), "block_size");
  EXPECT_EQ(field_at_fault(&Proto::set_total_blocks, -1), "total_blocks");
}

TEST(WorkerInfoTest, BecomesAnEntryOfListModels) {
  const v1::Model model = ToModel(Info());
  EXPECT_EQ(model.id(), "tiny");
  EXPECT_EQ(model.context_length(), 128);
  EXPECT_EQ(model.block_size(), 16);
  EXPECT_EQ(model.vocab_size(), 1000);
  EXPECT_EQ(model.architecture(), "llama");
  EXPECT_EQ(model.quantization(), "Q4_1");
  EXPECT_TRUE(model.chat_template());
}

TEST(WorkerInfoTest, HashCheckTellsKeysModelsAndBlockSizesApart) {
  const hash::BlockHash check = HashCheck(hash::kPublicKey, "f00d", 16);
  EXPECT_EQ(HashCheck(hash::kPublicKey, "f00d", 16), check);
  EXPECT_NE(HashCheck({1, 2}, "f00d", 16), check);
  EXPECT_NE(HashCheck(hash::kPublicKey, "beef", 16), check);
  EXPECT_NE(HashCheck(hash::kPublicKey, "f00d", 32), check);
}

}  // namespace
}  // namespace qanat::api
