// `qanat inspect`: what is in a model file, and whether a worker would serve it.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tools/qanat/command.h"
#include "tools/qanat/model_report.h"

namespace qanat::tools {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string file;
  bool json = false;
  bool tensors = false;
};

// Texts of a file cannot forge a line of a terminal.
std::string Shown(const Json& value) {
  if (value.is_null()) return "none";
  if (!value.is_string()) return value.dump();
  const std::string text = value.get<std::string>();
  return absl::Utf8SafeCHexEscape(absl::string_view(text).substr(0, 512));
}

void PrintLine(const char* name, const std::string& text) { std::printf("%-15s %s\n", name, text.c_str()); }

std::string Megabytes(const Json& bytes) { return absl::StrCat(bytes.get<uint64_t>() / 1'000'000, " MB"); }

std::string TokenText(const Json& token) {
  return token.is_null() ? "none" : absl::StrCat(Shown(token["id"]), " '", Shown(token["token"]), "'");
}

void PrintTypes(const Json& report) {
  for (const Json& type : report["types"]) {
    PrintLine("", absl::StrCat(Shown(type["type"]), ": ", Shown(type["tensors"]), " tensors, ",
                               Shown(type["bytes"]), " bytes"));
  }
}

void PrintTokenizer(const Json& tokenizer) {
  if (tokenizer.is_null()) return PrintLine("tokenizer", "none that can be read");
  std::string ends;
  for (const Json& token : tokenizer["ends_generation"]) absl::StrAppend(&ends, " ", TokenText(token));
  PrintLine("tokenizer", absl::StrCat(Shown(tokenizer["kind"]), " (", Shown(tokenizer["model"]), " ",
                                      Shown(tokenizer["pre"]), "), ", Shown(tokenizer["tokens"]), " tokens"));
  PrintLine("", absl::StrCat("BOS ", TokenText(tokenizer["bos"]),
                             tokenizer["add_bos"] == true ? ", put in front of prompts" : ", not added"));
  PrintLine("", absl::StrCat("ends a generation:", ends.empty() ? " none" : ends));
  if (!tokenizer["problem"].is_null()) PrintLine("", Shown(tokenizer["problem"]));
}

void PrintTemplate(const Json& chat_template) {
  if (chat_template.is_null()) return PrintLine("chat template", "none");
  PrintLine("chat template", absl::StrCat(Shown(chat_template["bytes"]), " bytes, ",
                                          chat_template["understood"] == true
                                              ? "understood"
                                              : "not understood: " + Shown(chat_template["problem"])));
}

void PrintGguf(const Json& report) {
  PrintLine("model", absl::StrCat(Shown(report["name"]), ", architecture ", Shown(report["architecture"])));
  PrintLine("shape",
            absl::StrCat(Shown(report["layers"]), " layers, hidden ", Shown(report["hidden_size"]), ", ffn ",
                         Shown(report["ffn_size"]), ", heads ", Shown(report["heads"]), " (",
                         Shown(report["kv_heads"]), " of keys and values) of ", Shown(report["head_dim"])));
  PrintLine("context", absl::StrCat(Shown(report["context_length"]), " tokens, ",
                                    Shown(report["kv_bytes_per_token"]), " bytes of KV cache each"));
  PrintLine("embeddings",
            report["tied_embeddings"] == true ? "tied: the head is the same matrix" : "not tied");
  PrintTokenizer(report["tokenizer"]);
  PrintTemplate(report["chat_template"]);
}

void Print(const Json& report) {
  const std::string version = report["version"].is_null() ? "" : " " + Shown(report["version"]);
  PrintLine("file", absl::StrCat(Shown(report["file"]), ", ", Shown(report["format"]), version, ", ",
                                 Megabytes(report["bytes"])));
  PrintLine("weights", absl::StrCat(Shown(report["parameters"]), " parameters in ", Shown(report["tensors"]),
                                    " tensors, ", Megabytes(report["weight_bytes"])));
  PrintTypes(report);
  if (report["format"] == "gguf") PrintGguf(report);
  if (report["metadata"].is_object()) {
    for (const auto& [key, text] : report["metadata"].items()) {
      PrintLine("metadata", absl::StrCat(Shown(key), ": ", Shown(text)));
    }
  }
  PrintLine("served", report["served"] == true ? "yes" : "no: " + Shown(report["reason"]));
  if (!report["tensor_list"].is_array()) return;
  for (const Json& tensor : report["tensor_list"]) {
    std::printf("%12s  %-8s %-20s %s\n", Shown(tensor["bytes"]).c_str(), Shown(tensor["type"]).c_str(),
                Shown(tensor["shape"]).c_str(), Shown(tensor["name"]).c_str());
  }
}

absl::Status Run(const InspectOptions& options) {
  QANAT_ASSIGN_OR_RETURN(const Json report, ReportOnModel(options.file, options.tensors));
  if (options.json) {
    // Names need not be UTF-8; JSON must.
    std::printf("%s\n", report.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    Print(report);
  }
  return absl::OkStatus();
}

}  // namespace

Command AddInspect(CLI::App& qanat) {
  CLI::App* app =
      qanat.add_subcommand("inspect", "Tells what is in a model file and whether it can be served");
  const auto options = std::make_shared<InspectOptions>();
  app->add_option("file", options->file, "a GGUF or safetensors file")->required();
  app->add_flag("--json", options->json, "print one JSON object");
  app->add_flag("--tensors", options->tensors, "list the tensors too");
  return {app, [options] { return Run(*options); }};
}

}  // namespace qanat::tools
