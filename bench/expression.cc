#include "bench/expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace lamella::bench {
namespace {

constexpr uint32_t kDepthMax = 64;  // of parentheses: a file cannot exhaust the stack

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

// By recursive descent: sum = product (+|- product)*, product = factor (*|/ factor)*.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, Expression* out) : text_(text), out_(out) {}

  Status Parse() {
    Status s = Sum(0);
    if (s.ok() && !AtEnd()) s = Expected("an operator or the end");
    return s;
  }

 private:
  using Kind = Expression::Kind;

  bool AtEnd() {
    while (at_ < text_.size() && text_[at_] == ' ') at_++;
    return at_ == text_.size();
  }
  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  Status Expected(std::string_view what) {
    const std::string found =
        AtEnd() ? "the end" : fmt::format("\"{}\"", text_.substr(at_, text_.size() - at_));
    return Status::InvalidArgument(fmt::format(
        "expression \"{}\", column {}: expected {}, found {}", text_, at_ + 1, what, found));
  }
  void Emit(Kind kind) { out_->steps_.push_back({kind, 0, 0}); }

  Status Sum(uint32_t depth) {
    Status s = Product(depth);
    while (s.ok()) {
      const Kind kind = Take('+') ? Kind::kAdd : Take('-') ? Kind::kSubtract : Kind::kNumber;
      if (kind == Kind::kNumber) return s;
      s = Product(depth);
      Emit(kind);
    }
    return s;
  }
  Status Product(uint32_t depth) {
    Status s = Factor(depth);
    while (s.ok()) {
      const Kind kind = Take('*') ? Kind::kMultiply : Take('/') ? Kind::kDivide : Kind::kNumber;
      if (kind == Kind::kNumber) return s;
      s = Factor(depth);
      Emit(kind);
    }
    return s;
  }
  Status Factor(uint32_t depth) {
    if (depth > kDepthMax) return Expected("fewer parentheses");
    if (Take('-')) {
      Status s = Factor(depth + 1);
      Emit(Kind::kNegate);
      return s;
    }
    if (Take('(')) {
      Status s = Sum(depth + 1);
      return s.ok() && !Take(')') ? Expected("\")\"") : s;
    }
    if (AtEnd()) return Expected("a number, a figure or \"(\"");
    if (std::isalpha(static_cast<unsigned char>(text_[at_])) != 0) return Call();
    return Number();
  }
  Status Number() {
    double number = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc()) return Expected("a number, a figure or \"(\"");
    at_ += static_cast<size_t>(end - begin);
    out_->steps_.push_back({Kind::kNumber, number, 0});
    return Status::OK();
  }
  Status Call() {
    Expression::Call call;
    while (at_ < text_.size() && IsNameByte(text_[at_])) call.function += text_[at_++];
    if (!Take('(')) return Expected("\"(\" after " + call.function);
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) return Expected("\")\" after the words of " + call.function);
    std::string_view words = text_.substr(at_, end - at_);
    while (true) {
      const size_t comma = words.find(',');
      call.words.emplace_back(Trim(words.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      words.remove_prefix(comma + 1);
    }
    at_ = end + 1;
    out_->steps_.push_back({Kind::kCall, 0, out_->calls_.size()});
    out_->calls_.push_back(std::move(call));
    return Status::OK();
  }

  const std::string_view text_;
  Expression* const out_;
  size_t at_ = 0;
};

Status Expression::Parse(std::string_view text, Expression* expression) {
  *expression = Expression{};
  return ExpressionParser(text, expression).Parse();
}

std::optional<double> Expression::Evaluate(const Lookup& lookup) const {
  std::vector<double> stack;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNumber) {
      stack.push_back(step.number);
      continue;
    }
    if (step.kind == Kind::kCall) {
      const std::optional<double> value = lookup(calls_[step.call]);
      if (!value) return std::nullopt;
      stack.push_back(*value);
      continue;
    }
    const double right = stack.back();
    if (step.kind == Kind::kNegate) {
      stack.back() = -right;
      continue;
    }
    stack.pop_back();
    double& left = stack.back();
    if (step.kind == Kind::kAdd) left += right;
    if (step.kind == Kind::kSubtract) left -= right;
    if (step.kind == Kind::kMultiply) left *= right;
    if (step.kind == Kind::kDivide) left /= right;
  }
  if (stack.size() != 1 || !std::isfinite(stack.back())) return std::nullopt;  // keeps I1
  return stack.back();
}

Status Bound::Parse(std::string_view text, Bound* bound) {
  *bound = Bound{};
  bound->text_ = std::string(text);
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    std::string_view part = Trim(rest.substr(0, comma));
    Comparison c{part.starts_with('>'), false, 0};
    const bool compares = c.greater || part.starts_with('<');
    if (compares) part.remove_prefix(1);
    c.or_equal = compares && part.starts_with('=');
    if (c.or_equal) part.remove_prefix(1);
    part = Trim(part);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), c.limit);
    if (!compares || error != std::errc() || end != part.data() + part.size()) {
      return Status::InvalidArgument(fmt::format(
          "bound \"{}\": expected >, >=, < or <= and a number, found \"{}\"", text, Trim(part)));
    }
    bound->comparisons_.push_back(c);
    if (comma == std::string_view::npos) return Status::OK();
    rest.remove_prefix(comma + 1);
  }
}

bool Bound::Holds(std::optional<double> value) const {
  if (!value || comparisons_.empty()) return false;
  return std::all_of(comparisons_.begin(), comparisons_.end(), [&](const Comparison& c) {
    if (c.or_equal && *value == c.limit) return true;
    return c.greater ? *value > c.limit : *value < c.limit;
  });
}

}  // namespace lamella::bench
