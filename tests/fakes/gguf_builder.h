// GGUF files for tests, built in memory: valid ones, and broken ones that no tool would write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace qanat::fakes {

// What: collects keys and tensors in order and writes them as a file. Every part can be replaced by bytes of
// the test's own. Threads: one. Errors: none; it writes what it is told to.
class GgufBuilder {
 public:
  // Value types and tensor types, by their numbers in the format.
  enum Type : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type = 0;  // F32
    // The data itself; empty: small floats that depend on the tensor's number.
    std::string data = {};
    uint64_t bytes = 0;  // of zeros, in place of that; 0: none
    // Where the data is said to be; unset: behind the one before, aligned.
    std::optional<uint64_t> offset = {};
  };

  uint32_t version = 3;
  std::string magic = "GGUF";
  // How the header counts; unset: as it is.
  std::optional<uint64_t> num_keys;
  std::optional<uint64_t> num_tensors;
  uint64_t alignment = 32;
  std::vector<Tensor> tensors;

  // A key with a value of any type, given as bytes. A key that is set again is replaced.
  void Set(const std::string& key, uint32_t type, std::string bytes) {
    for (Key& known : keys_) {
      if (known.name == key) {
        known = {key, type, std::move(bytes)};
        return;
      }
    }
    Append(key, type, std::move(bytes));
  }
  // The same for a key that is known to be new: does not look.
  void Append(const std::string& key, uint32_t type, std::string bytes) {
    keys_.push_back({key, type, std::move(bytes)});
  }
  void AddTwice(const std::string& key) {
    for (const Key& known : std::vector<Key>(keys_)) {
      if (known.name == key) keys_.push_back(known);
    }
  }
  void Remove(const std::string& key) {
    std::erase_if(keys_, [&key](const Key& known) { return known.name == key; });
  }
  void SetU32(const std::string& key, uint32_t value) { Set(key, kU32, Bytes(value)); }
  void SetF32(const std::string& key, float value) { Set(key, kF32, Bytes(value)); }
  void SetBool(const std::string& key, bool value) { Set(key, kBool, Bytes(static_cast<uint8_t>(value))); }
  void SetString(const std::string& key, std::string_view value) { Set(key, kString, String(value)); }
  void SetStrings(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = Bytes<uint32_t>(kString) + Bytes<uint64_t>(values.size());
    for (const std::string& value : values) bytes += String(value);
    Set(key, kArray, bytes);
  }
  void SetI32s(const std::string& key, const std::vector<int32_t>& values) {
    std::string bytes = Bytes<uint32_t>(kI32) + Bytes<uint64_t>(values.size());
    for (const int32_t value : values) bytes += Bytes(value);
    Set(key, kArray, bytes);
  }
  void SetF32s(const std::string& key, const std::vector<float>& values) {
    std::string bytes = Bytes<uint32_t>(kF32) + Bytes<uint64_t>(values.size());
    for (const float value : values) bytes += Bytes(value);
    Set(key, kArray, bytes);
  }

  Tensor& AddTensor(const std::string& name, std::vector<uint64_t> dims) {
    return tensors.emplace_back(Tensor{.name = name, .dims = std::move(dims)});
  }
  void RemoveTensor(const std::string& name) {
    std::erase_if(tensors, [&name](const Tensor& tensor) { return tensor.name == name; });
  }
  Tensor& TensorNamed(const std::string& name) {
    for (Tensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    return AddTensor(name, {});
  }

  // The whole file.
  std::vector<std::byte> Build() const {
    std::string head = magic + Bytes(version);
    head += Bytes<uint64_t>(num_tensors.value_or(tensors.size()));
    head += Bytes<uint64_t>(num_keys.value_or(keys_.size()));
    for (const Key& key : keys_) head += String(key.name) + Bytes(key.type) + key.bytes;
    std::string data;
    for (size_t n = 0; n < tensors.size(); ++n) {
      const Tensor& tensor = tensors[n];
      data.resize((data.size() + alignment - 1) / alignment * alignment);
      head += String(tensor.name) + Bytes<uint32_t>(static_cast<uint32_t>(tensor.dims.size()));
      uint64_t elements = 1;
      for (const uint64_t dim : tensor.dims) {
        head += Bytes(dim);
        elements *= dim;
      }
      head += Bytes(tensor.type) + Bytes<uint64_t>(tensor.offset.value_or(data.size()));
      AppendData(tensor, n, elements, data);
    }
    if (!tensors.empty()) head.resize((head.size() + alignment - 1) / alignment * alignment);
    head += data;
    std::vector<std::byte> file(head.size());
    std::memcpy(file.data(), head.data(), head.size());
    return file;
  }

  template <typename T>
  static std::string Bytes(T value) {
    std::string bytes(sizeof(value), '\0');
    std::memcpy(bytes.data(), &value, sizeof(value));
    return bytes;
  }
  static std::string String(std::string_view text) { return Bytes<uint64_t>(text.size()).append(text); }

 private:
  struct Key {
    std::string name;
    uint32_t type;
    std::string bytes;
  };

  // Sizes that a test made absurd are not written out.
  static void AppendData(const Tensor& tensor, size_t n, uint64_t elements, std::string& data) {
    constexpr uint64_t kMost = 1 << 20;
    if (!tensor.data.empty()) {
      data += tensor.data;
    } else if (tensor.bytes > 0) {
      data.append(tensor.bytes, '\0');
    } else if (elements <= kMost) {
      for (uint64_t i = 0; i < elements; ++i) {
        data += Bytes(static_cast<float>((i * 2654435761u + n * 40503u) % 1000) / 2000.0f - 0.25f);
      }
    }
  }

  std::vector<Key> keys_;
};

// A model of one layer, hidden 32, 2 heads of 16, ffn 32, context 64, all F32, tied, and a vocabulary of 8
// tokens with one merge, with the tensors that `architecture` has. Loads and runs.
inline GgufBuilder TinyModel(const std::string& architecture) {
  GgufBuilder gguf;
  const auto key = [&](const char* name) { return architecture + "." + name; };
  gguf.SetString("general.architecture", architecture);
  gguf.SetString("general.name", "tiny");
  gguf.SetU32(key("block_count"), 1);
  gguf.SetU32(key("context_length"), 64);
  gguf.SetU32(key("embedding_length"), 32);
  gguf.SetU32(key("feed_forward_length"), 32);
  gguf.SetU32(key("attention.head_count"), 2);
  gguf.SetU32(key("attention.head_count_kv"), 1);
  gguf.SetF32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  gguf.SetF32(key("rope.freq_base"), 10000.0f);
  gguf.SetString("tokenizer.ggml.model", "gpt2");
  gguf.SetString("tokenizer.ggml.pre", "smollm");
  gguf.SetStrings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b", "c", "ab", "d"});
  gguf.SetI32s("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1, 1, 1});
  gguf.SetStrings("tokenizer.ggml.merges", {"a b"});
  gguf.SetU32("tokenizer.ggml.bos_token_id", 1);
  gguf.SetU32("tokenizer.ggml.eos_token_id", 2);
  gguf.SetU32("tokenizer.ggml.unknown_token_id", 0);
  gguf.SetBool("tokenizer.ggml.add_bos_token", false);
  gguf.AddTensor("token_embd.weight", {32, 8});
  gguf.AddTensor("output_norm.weight", {32});
  gguf.AddTensor("blk.0.attn_norm.weight", {32});
  gguf.AddTensor("blk.0.attn_q.weight", {32, 32});
  gguf.AddTensor("blk.0.attn_k.weight", {32, 16});
  gguf.AddTensor("blk.0.attn_v.weight", {32, 16});
  gguf.AddTensor("blk.0.attn_output.weight", {32, 32});
  gguf.AddTensor("blk.0.ffn_norm.weight", {32});
  gguf.AddTensor("blk.0.ffn_gate.weight", {32, 32});
  gguf.AddTensor("blk.0.ffn_up.weight", {32, 32});
  gguf.AddTensor("blk.0.ffn_down.weight", {32, 32});
  if (architecture == "qwen2") {
    gguf.AddTensor("blk.0.attn_q.bias", {32});
    gguf.AddTensor("blk.0.attn_k.bias", {16});
    gguf.AddTensor("blk.0.attn_v.bias", {16});
  }
  if (architecture == "qwen3" || architecture == "gemma3") {
    gguf.AddTensor("blk.0.attn_q_norm.weight", {16});
    gguf.AddTensor("blk.0.attn_k_norm.weight", {16});
  }
  if (architecture == "gemma3") {
    gguf.AddTensor("blk.0.post_attention_norm.weight", {32});
    gguf.AddTensor("blk.0.post_ffw_norm.weight", {32});
  }
  return gguf;
}

inline GgufBuilder TinyLlama() { return TinyModel("llama"); }

}  // namespace qanat::fakes
