// Expression is what a claim of a scenario compares: arithmetic over figures of its steps, such as
// "rate(iul, load) / rate(wal, load)". Bound is what it must be: ">= 1.4", or ">= 0.8, <= 1.2".
// I1: what cannot be computed (a figure that was not taken, a division by zero) is no number, and
//     no bound holds for it.
// Threads: one.
#ifndef LAMELLA_BENCH_EXPRESSION_H_
#define LAMELLA_BENCH_EXPRESSION_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamella/status.h"

namespace lamella::bench {

class Expression {
 public:
  /// "latency(tlsm, load, mean)": the words between the commas as they stand, without blanks at
  /// their ends.
  struct Call {
    std::string function;
    std::vector<std::string> words;
  };
  using Lookup = std::function<std::optional<double>(const Call&)>;

  /// Numbers, calls, + - * / and parentheses. InvalidArgument names the column, what was expected
  /// and what was found.
  static Status Parse(std::string_view text, Expression* expression);

  const std::vector<Call>& calls() const { return calls_; }
  /// Nullopt where a call has no value or the result is no finite number.
  std::optional<double> Evaluate(const Lookup& lookup) const;

 private:
  friend class ExpressionParser;
  enum class Kind : uint8_t { kNumber, kCall, kNegate, kAdd, kSubtract, kMultiply, kDivide };
  // In the order in which a stack machine takes them.
  struct Step {
    Kind kind;
    double number = 0;
    size_t call = 0;
  };
  std::vector<Step> steps_;
  std::vector<Call> calls_;
};

class Bound {
 public:
  /// One comparison or several, divided by commas: ">", ">=", "<" or "<=" and a number each.
  static Status Parse(std::string_view text, Bound* bound);
  /// All comparisons hold.
  bool Holds(std::optional<double> value) const;
  const std::string& text() const { return text_; }

 private:
  struct Comparison {
    bool greater;
    bool or_equal;
    double limit;
  };
  std::string text_;
  std::vector<Comparison> comparisons_;
};

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_EXPRESSION_H_
