#include "bench/expression.h"

#include <map>

#include <gtest/gtest.h>

namespace lamella::bench {
namespace {

std::optional<double> Value(const std::string& text) {
  Expression expression;
  const Status s = Expression::Parse(text, &expression);
  EXPECT_TRUE(s.ok()) << s.ToString();
  const std::map<std::string, double> figures = {{"rate(a, load)", 6}, {"rate(b-2, load)", 2}};
  return expression.Evaluate([&](const Expression::Call& call) -> std::optional<double> {
    std::string name = call.function + "(";
    for (size_t i = 0; i < call.words.size(); i++) name += (i > 0 ? ", " : "") + call.words[i];
    const auto found = figures.find(name + ")");
    return found == figures.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string Refusal(const std::string& text) {
  Expression expression;
  const Status s = Expression::Parse(text, &expression);
  EXPECT_TRUE(s.IsInvalidArgument()) << text;
  return std::string(s.message());
}

TEST(Expression, FollowsTheRulesOfArithmetic) {
  EXPECT_EQ(Value("1 + 2 * 3"), 7);
  EXPECT_EQ(Value("(1 + 2) * 3"), 9);
  EXPECT_EQ(Value("10 - 4 - 3"), 3);
  EXPECT_EQ(Value("12 / 3 / 2"), 2);
  EXPECT_EQ(Value("-2 * -(3 - 1)"), 4);
  EXPECT_EQ(Value("1.5e1"), 15);
}

TEST(Expression, CallsAreLookedUpByTheirWords) {
  EXPECT_EQ(Value("rate(a, load) / rate( b-2 ,load )"), 3);
  EXPECT_EQ(Value("1 - rate(b-2, load) / rate(a, load) * 3"), 0);
}

TEST(Expression, WhatCannotBeComputedIsNoNumber) {
  EXPECT_EQ(Value("rate(c, load)"), std::nullopt);
  EXPECT_EQ(Value("rate(c, load) * 0"), std::nullopt);
  EXPECT_EQ(Value("1 / 0"), std::nullopt);
  EXPECT_EQ(Value("0 / (1 - 1)"), std::nullopt);
}

TEST(Expression, WhatCannotBeMeantIsNamedWithItsColumn) {
  for (const char* text : {"", "1 +", "(1", "1 2", "rate", "rate(a", "1 + * 2", "$", "a b"})
    EXPECT_NE(Refusal(text).find("expected"), std::string::npos) << text;
  EXPECT_NE(Refusal("1 + $").find("column 5"), std::string::npos) << Refusal("1 + $");
  EXPECT_NE(Refusal(std::string(10000, '(') + "1").find("fewer parentheses"), std::string::npos);
  EXPECT_NE(Refusal(std::string(10000, '-') + "1").find("fewer parentheses"), std::string::npos);
}

TEST(Bound, HoldsWhereEveryComparisonDoes) {
  const auto holds = [](const std::string& text, std::optional<double> value) {
    Bound bound;
    EXPECT_TRUE(Bound::Parse(text, &bound).ok()) << text;
    return bound.Holds(value);
  };
  EXPECT_TRUE(holds("> 1", 1.1));
  EXPECT_FALSE(holds("> 1", 1.0));
  EXPECT_TRUE(holds(">= 1", 1.0));
  EXPECT_FALSE(holds("<0.4", 0.4));
  EXPECT_TRUE(holds("<= 0.4", 0.4));
  EXPECT_TRUE(holds(">= 0.8, <= 1.2", 1.0));
  EXPECT_FALSE(holds(">= 0.8, <= 1.2", 1.3));
  EXPECT_FALSE(holds(">= 0.8, <= 1.2", 0.7));
  EXPECT_FALSE(holds("> -1e9", std::nullopt));  // what was not measured holds nothing
  EXPECT_FALSE(Bound().Holds(1));
}

TEST(Bound, WhatCannotBeMeantIsRefused) {
  Bound bound;
  for (const char* text : {"", "1", "= 1", "> ", "> x", "> 1,", "> 1 2", ">> 1"})
    EXPECT_TRUE(Bound::Parse(text, &bound).IsInvalidArgument()) << text;
}

}  // namespace
}  // namespace lamella::bench
