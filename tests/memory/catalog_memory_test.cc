// What the catalog leaves where the system refuses memory.

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/no_throw.h"
#include "memory/refusing_new.h"
#include "pool/catalog.h"
#include "pool/pool_test_base.h"

namespace lamella {
namespace {

class CatalogMemory : public PoolTest {};

// A rewrite is done, or it has claimed nothing and the catalog goes on where it is.
TEST_F(CatalogMemory, ARewriteThatWasRefusedHasClaimedNothing) {
  Create();
  const std::string state(1000, 's');
  const auto write_state = [&state] { return std::string(state); };
  std::unique_ptr<Catalog> catalog;
  ASSERT_TRUE(Catalog::Create(pool_.get(), write_state, &catalog).ok());
  const size_t owned = Owned().size();
  int64_t nth = 0;
  for (;; nth++) {
    Status s;
    const bool was_refused =
        testing::Refusing(nth, false, [&] { s = NoThrow([&] { return catalog->Rewrite(); }); });
    EXPECT_EQ(s.ok(), !was_refused) << nth << ": " << s.ToString();
    EXPECT_EQ(Owned().size(), owned) << nth;
    EXPECT_TRUE(catalog->Append(1, "edit").ok());
    if (!was_refused) break;
  }
  EXPECT_GT(nth, 1) << "little was refused";
  catalog.reset();
  Open();
  std::string read;
  const Status s = Catalog::Open(
      pool_.get(), write_state,
      [&](uint32_t kind, std::string_view payload) {
        read = kind == Catalog::kSnapshotKind ? std::string(payload) : read + std::string(payload);
        return Status::OK();
      },
      &catalog);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(read, state + "edit");
}

}  // namespace
}  // namespace lamella
