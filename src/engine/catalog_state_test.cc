#include "engine/catalog_state.h"

#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/codec.h"
#include "pool/pool_test_base.h"

namespace lamella {
namespace {

/// A design's state, of two numbers; an edit has both.
struct TwoNumbers {
  uint64_t noted = 0;
  uint64_t edited = 0;

  std::string Encode() const {
    std::string out;
    AppendFixed(&out, noted);
    AppendFixed(&out, edited);
    return out;
  }
  static Status Decode(std::string_view payload, TwoNumbers* state) {
    return state->Apply(payload);
  }
  std::string EncodeChange(const TwoNumbers& /*before*/) const { return Encode(); }
  Status Apply(std::string_view payload) {
    Decoder in(payload);
    noted = in.Fixed<uint64_t>();
    edited = in.Fixed<uint64_t>();
    return in.done() ? Status::OK() : Status::Corruption("no two numbers");
  }
};

class CatalogStateTest : public PoolTest {
 protected:
  CatalogStateTest() {
    Create();
    state_.emplace(pool_.get());
  }
  ~CatalogStateTest() override { state_.reset(); }
  void Reopen() {
    state_.reset();
    Open();
    state_.emplace(pool_.get());
    const Status s = state_->Open();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  Status Set(uint64_t value) {
    return state_->Edit(1, [value](TwoNumbers* state) { state->edited = value; });
  }

  std::optional<CatalogState<TwoNumbers>> state_;
};

TEST_F(CatalogStateTest, EditsAreThereAfterwards) {
  EXPECT_FALSE(state_->exists());
  ASSERT_TRUE(state_->Create({.noted = 1, .edited = 2}).ok());
  EXPECT_TRUE(state_->exists());
  // more than a chunk has room for
  for (uint64_t i = 0; i < 5'000; i++) ASSERT_TRUE(Set(i).ok());
  Reopen();
  EXPECT_EQ(state_->Get().noted, 1u);
  EXPECT_EQ(state_->Get().edited, 4'999u);
}

TEST_F(CatalogStateTest, WhatIsNotedIsDurableWithTheNextEdit) {
  ASSERT_TRUE(state_->Create({}).ok());
  EXPECT_EQ(state_->Note([](TwoNumbers* state) { return state->noted = 7; }), 7u);
  Reopen();
  EXPECT_EQ(state_->Get().noted, 0u);
  state_->Note([](TwoNumbers* state) { state->noted = 8; });
  ASSERT_TRUE(Set(1).ok());
  Reopen();
  EXPECT_EQ(state_->Get().noted, 8u);
}

TEST_F(CatalogStateTest, AnEditThatFailsChangesNothing) {  // I1
  ASSERT_TRUE(state_->Create({}).ok());
  ASSERT_TRUE(Set(1).ok());
  const Status s = state_->Edit(1, [](TwoNumbers* state) {
    state->edited = 2;
    throw std::bad_alloc();
  });
  EXPECT_FALSE(s.ok());
  EXPECT_EQ(state_->Get().edited, 1u);
  Reopen();
  EXPECT_EQ(state_->Get().edited, 1u);
}

}  // namespace
}  // namespace lamella
