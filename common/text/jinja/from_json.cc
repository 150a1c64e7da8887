#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/text/jinja/cat.h"
#include "common/text/jinja/json.h"
#include "nlohmann/json.hpp"

namespace qanat::text::jinja {
namespace {

// Takes the events of nlohmann's parser, which keeps its own stack on the heap; so does this.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(Value::None()); }
  bool boolean(bool value) override { return Add(Value::Bool(value)); }
  bool number_integer(int64_t value) override { return Add(Value::Int(value)); }
  bool number_unsigned(uint64_t value) override {
    return value > INT64_MAX ? Fail("has an integer beyond 64 bits")
                             : Add(Value::Int(static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string& text) override {
    // Digits alone are an integer that was too large.
    if (text.find_first_of(".eE") == std::string::npos) return Fail("has an integer beyond 64 bits");
    return Add(Value::Float(value));
  }
  bool string(std::string& value) override { return Add(Value::Plain(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return Fail("has binary data"); }

  bool start_object(size_t) override { return Open(true); }
  bool key(std::string& key) override {
    open_.back().key = std::move(key);
    return true;
  }
  bool end_object() override {
    std::shared_ptr<const Dict> dict = std::move(open_.back().dict);
    open_.pop_back();
    return Add(Value::Of(std::move(dict)));
  }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override {
    Container array = std::move(open_.back());
    open_.pop_back();
    return Add(ListOf(List::Type::kList, std::move(array.items)));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(Cat("is not valid JSON at byte ", position));
  }

  const std::string& error() const { return error_; }
  Value TakeResult() { return std::move(result_); }

 private:
  struct Container {
    std::shared_ptr<Dict> dict;  // null: an array
    std::string key;             // of the next value
    std::vector<Value> items;
  };

  bool Fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }

  bool Open(bool object) {
    if (open_.size() == kMaxJsonDepth) return Fail(Cat("is nested more than ", kMaxJsonDepth, " deep"));
    open_.push_back({object ? std::make_shared<Dict>() : nullptr, "", {}});
    return true;
  }

  bool Add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().dict == nullptr) {
      open_.back().items.push_back(std::move(value));
    } else {
      open_.back().dict->SetText(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  std::vector<Container> open_;
  Value result_;
  std::string error_;
};

}  // namespace

absl::StatusOr<Value> FromJson(std::string_view json) {
  Builder builder;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) {
    return absl::InvalidArgumentError(builder.error());
  }
  return builder.TakeResult();
}

}  // namespace qanat::text::jinja
