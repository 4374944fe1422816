#include "pool/catalog.h"

#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "base/codec.h"
#include "base/crc32c.h"
#include "pool/pool_test_base.h"
#include "testing/cut_recorder.h"

namespace lamella {
namespace {

// A state of names: an edit of kind 1 adds one, a snapshot lists all.
class CatalogTest : public PoolTest {
 protected:
  using Names = std::vector<std::string>;

  ~CatalogTest() override { catalog_.reset(); }

  void CreateCatalog() {
    Create();
    const Status s = Catalog::Create(pool_.get(), [this] { return Snapshot(); }, &catalog_);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  std::string Snapshot() const {
    std::string out;
    for (const std::string& name : names_) AppendString(&out, name);
    return out;
  }
  static Catalog::EditReader Reader(Names* names) {
    return [names](uint32_t kind, std::string_view payload) {
      if (kind != Catalog::kSnapshotKind) {
        names->push_back(std::string(payload));
        return Status::OK();
      }
      names->clear();
      Decoder decoder(payload);
      while (decoder.remaining() > 0) names->emplace_back(decoder.String());
      return decoder.done() ? Status::OK() : Status::Corruption("snapshot");
    };
  }
  Status Add(const std::string& name) {
    names_.push_back(name);
    return catalog_->Append(1, name);
  }
  void MustAdd(const std::string& name) {
    const Status s = Add(name);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  void CloseCatalog() {
    catalog_.reset();
    Close();
  }
  Status TryReopen() {
    CloseCatalog();
    Status s = TryOpen();
    if (s.ok())
      s = Catalog::Open(pool_.get(), [this] { return Snapshot(); }, Reader(&names_), &catalog_);
    if (s.ok()) s = catalog_->Mend();
    return s;
  }
  void Reopen() {
    const Status s = TryReopen();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  void ExpectOldOrNew(CutRecorder* recorder, const Names& old_names, const Names& new_names,
                      const std::function<void()>& rewrite);
  uint64_t ChunkOffset() const {
    return uint64_t{catalog_->runs().runs().front().index} * kChunkBytesMin;
  }

  Names names_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(CatalogTest, EditsComeBackInOrder) {
  names_ = {"first"};
  CreateCatalog();
  for (const std::string& name :
       {std::string("a"), std::string(), std::string(1000, 'x'), std::string("\0b", 2)}) {
    MustAdd(name);
  }
  const Names expected = names_;
  for (int i = 0; i < 3; i++) {
    Reopen();
    EXPECT_EQ(names_, expected);
  }
  MustAdd("later");
  Reopen();
  EXPECT_EQ(names_.back(), "later");
  EXPECT_EQ(names_.size(), 6u);
}

TEST_F(CatalogTest, AnEditIsTwoFences) {
  CreateCatalog();
  const uint64_t before = pool_->gate()->Counters(WriteCause::kCatalog).fences;
  MustAdd("x");
  EXPECT_EQ(pool_->gate()->Counters(WriteCause::kCatalog).fences - before, 2u);
}

TEST_F(CatalogTest, AFullChunkIsRewrittenAndTheOldOneFreed) {  // I2
  CreateCatalog();
  const uint32_t first = catalog_->runs().runs().front().index;
  Names kept;
  for (int i = 0; i < 1000; i++) {
    MustAdd(std::to_string(i) + std::string(1000, 'x'));
    // the state forgets, so rewriting makes room
    if (names_.size() > 20) names_.erase(names_.begin());
  }
  EXPECT_EQ(Owned().size(), 1u);
  kept = names_;
  Reopen();
  EXPECT_EQ(Names(names_.end() - 20, names_.end()), kept);
  EXPECT_LT(names_.size(), 500u);
  EXPECT_EQ(Owned().size(), 1u);
  MustAdd("more");
  Reopen();
  EXPECT_EQ(names_.back(), "more");
  (void)first;
}

TEST_F(CatalogTest, AStateLargerThanAChunkTakesARun) {
  CreateCatalog();
  for (int i = 0; i < 20; i++) MustAdd(std::to_string(i) + std::string(20000, 'x'));
  EXPECT_GT(catalog_->runs().runs().front().run_chunks, 4u);
  const Names expected = names_;
  Reopen();
  EXPECT_EQ(names_, expected);
  MustAdd("more");
  Reopen();
  EXPECT_EQ(names_.size(), 21u);
}

// Whatever part of an edit reached the medium, without its tail it is not there, and does no harm
// to what comes after it.
TEST_F(CatalogTest, ATornEditIsIgnored) {  // I1
  CreateCatalog();
  MustAdd("one");
  MustAdd("two");
  const uint64_t tail = ChunkOffset() + catalog_->bytes_used();
  const std::string before = ReadWhole(path());
  MustAdd("the third one is torn");
  const uint64_t edit_bytes = ChunkOffset() + catalog_->bytes_used() - tail;
  CloseCatalog();
  const std::string after = ReadWhole(path());
  for (uint64_t reached = 0; reached <= edit_bytes; reached++) {
    std::string torn = before;
    torn.replace(tail, reached, after, tail, reached);
    WriteWhole(path(), torn);
    Reopen();
    ASSERT_EQ(names_, (Names{"one", "two"})) << reached;
    MustAdd("3");  // shorter: old bytes stay after it
    Reopen();
    ASSERT_EQ(names_, (Names{"one", "two", "3"})) << reached;
    CloseCatalog();
  }
  WriteWhole(path(), after);
  Reopen();
  EXPECT_EQ(names_.size(), 3u);
}

TEST_F(CatalogTest, AnyBitBelowTheTailIsCorruption) {
  names_ = {"first"};
  CreateCatalog();
  MustAdd("one");
  MustAdd("12345678");
  const uint64_t start = ChunkOffset();
  const uint64_t bytes = catalog_->bytes_used();
  const Names expected = names_;
  CloseCatalog();
  int damage = 0;
  for (size_t bit = 0; bit < bytes * 8; bit++) {
    FlipBit(start, bit);
    const Status s = TryReopen();
    FlipBit(start, bit);
    const bool head_reserved =
        bit / 8 >= offsetof(CatalogHead, reserved) && bit / 8 < sizeof(CatalogHead);
    if (s.ok()) {
      EXPECT_EQ(names_, expected);  // padding, or what is reserved
      damage -= !head_reserved;
    } else {
      EXPECT_TRUE(s.IsCorruption() && Says(s, "chunk 3, offset 0x")) << bit << ": " << s.ToString();
    }
    damage++;
  }
  EXPECT_GT(damage, static_cast<int>(bytes * 8 * 3 / 4));
}

TEST_F(CatalogTest, AMissingOrMisnamedCatalogIsCorruption) {
  Create();
  Status s = TryReopen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "names no catalog")) << s.ToString();
  const ChunkRef log = MustClaim();
  ASSERT_TRUE(pool_->SwitchCatalog(log.index).ok());
  s = TryReopen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "no catalog chunk")) << s.ToString();
  ASSERT_TRUE(pool_->SwitchCatalog(1u << 30).ok());
  EXPECT_TRUE(TryReopen().IsCorruption());
}

TEST_F(CatalogTest, ACatalogOfAnEarlierLifeDoesNotValidate) {
  CreateCatalog();
  MustAdd("old");
  const ChunkRef old = catalog_->runs().runs().front();
  catalog_.reset();
  pool_->Free(old, &*persister_);
  ChunkRef again;
  ASSERT_TRUE(
      pool_->Claim(0, ChunkKind::kCatalog, 0, 1, 1, Claimant::kReclaim, &*persister_, &again).ok());
  ASSERT_EQ(again.index, old.index);
  const Status s = TryReopen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "head's checksum")) << s.ToString();
}

TEST_F(CatalogTest, TheFirstEditMustBeASnapshot) {
  CreateCatalog();
  char* edit = pool_->ChunkAddress(catalog_->runs().runs().front()) + sizeof(CatalogHead);
  EditHeader header;
  std::memcpy(&header, edit, sizeof(header));
  header.kind = 1;
  const uint64_t at = sizeof(CatalogHead);
  header.checksum =
      Crc32c(Crc32c(catalog_->runs().runs().front().epoch, &at, sizeof(at)), &header.size, 12);
  std::memcpy(edit, &header, sizeof(header));
  const Status s = TryReopen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "expected a snapshot")) << s.ToString();
}

TEST_F(CatalogTest, WhatTheReaderRefusesIsReturned) {
  CreateCatalog();
  MustAdd("x");
  catalog_.reset();
  const auto refuse = [](uint32_t, std::string_view) { return Status::NotSupported("kind 1"); };
  const Status s = Catalog::Open(pool_.get(), [] { return std::string(); }, refuse, &catalog_);
  EXPECT_TRUE(s.IsNotSupported());
  EXPECT_EQ(catalog_, nullptr);
}

TEST_F(CatalogTest, WithoutSpaceForARewriteTheCatalogStays) {
  options_.pool_bytes_max = 16 * kChunkBytesMin;
  CreateCatalog();
  ChunkRef chunk;
  while (Claim(&chunk, 1, Claimant::kReclaim).ok()) continue;
  Status s;
  Names before;
  while ((s = Add(std::string(5000, 'x'))).ok()) before = names_;
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  Reopen();
  EXPECT_EQ(names_, before);
  pool_->Free(chunk, &*persister_);
  names_.resize(2);
  MustAdd(std::string(5000, 'y'));
  const Names rewritten = names_;
  Reopen();
  EXPECT_EQ(names_, rewritten);
}

// Every state that a crash may leave of `rewrite`, which makes of these names those.
void CatalogTest::ExpectOldOrNew(CutRecorder* recorder, const Names& old_names,
                                 const Names& new_names, const std::function<void()>& rewrite) {
  PoolOptions copy = options_;
  copy.hook = nullptr;
  copy.part_paths = {dir_.Sub("copy.0")};
  int old_states = 0;
  int new_states = 0;
  std::string last_image;
  recorder->Watch(pool_->Address(PmPtr(0, 0)), pool_->pool_bytes(), [&](const std::string& image) {
    if (image == last_image) return;
    last_image = image;
    WriteWhole(copy.part_paths[0], image);
    std::unique_ptr<Pool> pool;
    std::unique_ptr<Catalog> catalog;
    Names names;
    Status s = Pool::Open(copy, &pool);
    if (s.ok()) s = pool->Mend();
    if (s.ok())
      s = Catalog::Open(pool.get(), [] { return std::string(); }, Reader(&names), &catalog);
    ASSERT_TRUE(s.ok()) << s.ToString();
    s = catalog->Mend();
    ASSERT_TRUE(s.ok()) << s.ToString();
    size_t catalogs = 0;
    pool->ForEachChunk([&](const ChunkRef& c) { catalogs += c.kind == ChunkKind::kCatalog; });
    EXPECT_EQ(catalogs, catalog->runs().runs().size());
    old_states += names == old_names;
    new_states += names == new_names;
    EXPECT_TRUE(names == old_names || names == new_names);
    catalog.reset();
  });
  rewrite();
  recorder->Cut();
  recorder->Stop();
  EXPECT_GT(old_states, 10);
  EXPECT_GT(new_states, 10);
}

TEST_F(CatalogTest, ARewriteCutAnywhereIsOldOrNewAndLeaksNothing) {
  CutRecorder recorder;
  options_.hook = &recorder;
  CreateCatalog();
  MustAdd("small");
  const std::string big(kChunkBytesMin - 300, 'x');
  MustAdd(big);
  const Names old_names = names_;
  const Names new_names = {"small", std::string(300, 'y')};
  ExpectOldOrNew(&recorder, old_names, new_names, [&] {
    names_ = {"small"};
    MustAdd(new_names[1]);  // does not fit
  });
  CloseCatalog();
}

// What edits brought since the last rewrite is kept room for, too.
TEST_F(CatalogTest, AStateThatGrewByEditsFindsRoomInAPoolThatIsFull) {
  options_.pool_bytes_max = 128 * kChunkBytesMin;
  CreateCatalog();
  MustAdd(std::string(kChunkBytesMin / 4, 'x'));
  ASSERT_TRUE(catalog_->Rewrite().ok());
  const uint64_t room = catalog_->runs().bytes();
  ASSERT_GT(room, 4 * kChunkBytesMin);
  while (catalog_->bytes_used() + kChunkBytesMin / 4 < room)
    MustAdd(std::string(kChunkBytesMin / 8, 'y'));
  for (const bool reopened : {true, false}) {
    if (reopened) Reopen();
    for (ChunkRef chunk; Claim(&chunk, 1, Claimant::kReclaim).ok();) continue;
    const Status s = catalog_->Rewrite();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  const Names expected = names_;
  Reopen();
  EXPECT_EQ(names_, expected);
}

// However the free chunks lie the catalog finds room, since it is kept by their number: a state
// larger than a chunk goes over several.
class CatalogInPieces : public CatalogTest {
 protected:
  // Of zeros, as what was never written: a state that a crash leaves is of what differs.
  static constexpr size_t kNameBytes = 10000;

  void CreateScattered(uint64_t chunks = 128) {
    options_.pool_bytes_max = chunks * kChunkBytesMin;
    CreateCatalog();
    Scatter();
  }
  // No two chunks that are free lie side by side.
  void Scatter() {
    std::vector<ChunkRef> taken;
    for (ChunkRef chunk; Claim(&chunk, 1, Claimant::kIndex).ok();) taken.push_back(chunk);
    for (const ChunkRef& chunk : taken) {
      if (chunk.index % 2 == 0) pool_->Free(chunk, &*persister_);
    }
  }
  size_t Runs() const { return catalog_->runs().runs().size(); }
  size_t Catalogs() {
    size_t catalogs = 0;
    pool_->ForEachChunk([&](const ChunkRef& c) { catalogs += c.kind == ChunkKind::kCatalog; });
    return catalogs;
  }
  void Grow(int names) {
    for (int i = 0; i < names; i++)
      MustAdd(std::to_string(names_.size()) + std::string(kNameBytes, '\0'));
  }
};

TEST_F(CatalogInPieces, EditsComeBackAndTheirChunksToo) {
  CreateScattered();
  Grow(20);
  EXPECT_GT(Runs(), 2u);
  EXPECT_EQ(Catalogs(), Runs());
  const Names expected = names_;
  Reopen();
  EXPECT_EQ(names_, expected);
  EXPECT_EQ(Catalogs(), Runs());
  Grow(40);  // rewritten into others
  Reopen();
  EXPECT_EQ(names_.size(), 60u);
  EXPECT_EQ(Catalogs(), Runs());
  names_.resize(2);
  ASSERT_TRUE(catalog_->Rewrite().ok());
  EXPECT_EQ(Runs(), 1u);
  EXPECT_EQ(Catalogs(), 1u);
}

TEST_F(CatalogInPieces, ARewriteThatEndsAnywhereIsOldOrNewAndLeaksNothing) {
  CutRecorder recorder;
  options_.hook = &recorder;
  CreateScattered(24);
  Grow(4);
  ASSERT_TRUE(catalog_->Rewrite().ok());
  Scatter();  // what it left
  EXPECT_GT(Runs(), 1u);
  const Names old_names = names_;
  Names new_names = old_names;
  new_names.emplace_back("another");
  ExpectOldOrNew(&recorder, old_names, new_names, [&] {
    names_ = new_names;
    ASSERT_TRUE(catalog_->Rewrite().ok());
  });
  EXPECT_GT(Runs(), 1u);
  CloseCatalog();
}

TEST_F(CatalogInPieces, AHeadThatIsDamagedIsCorruption) {
  CreateScattered();
  Grow(12);
  ASSERT_GT(Runs(), 2u);
  std::vector<uint64_t> heads;
  for (const ChunkRef& run : catalog_->runs().runs())
    heads.push_back(uint64_t{run.index} * kChunkBytesMin);
  const Names expected = names_;
  CloseCatalog();
  for (size_t run = 0; run < heads.size(); run++) {
    for (size_t bit = 0; bit < offsetof(CatalogHead, reserved) * 8; bit++) {
      const bool is_tail =
          bit / 8 >= offsetof(CatalogHead, tail) && bit / 8 < offsetof(CatalogHead, checksum);
      if (run > 0 && is_tail) continue;
      FlipBit(heads[run], bit);
      const Status s = TryReopen();
      FlipBit(heads[run], bit);
      ASSERT_TRUE(s.IsCorruption() && Says(s, "catalog: "))
          << run << ", " << bit << ": " << s.ToString();
    }
  }
  Reopen();
  EXPECT_EQ(names_, expected);
  // What is not a head, of each run, and where an edit goes from one to the next.
  std::vector<uint64_t> places;
  for (uint64_t at = sizeof(CatalogHead); at < catalog_->bytes_used(); at += 97) {
    const CatalogRuns::Piece piece = catalog_->runs().At(at);
    places.push_back(uint64_t{piece.chunk} * kChunkBytesMin + piece.offset);
  }
  CloseCatalog();
  for (const uint64_t place : places) {
    FlipBit(place, 3);
    const Status s = TryReopen();
    FlipBit(place, 3);
    if (s.ok()) {
      EXPECT_EQ(names_, expected);  // padding
    } else {
      EXPECT_TRUE(s.IsCorruption() && Says(s, "catalog: ")) << place << ": " << s.ToString();
    }
  }
}

// As a rewrite leaves it whose chunks had edits before: one of those is none of this catalog's.
TEST_F(CatalogInPieces, AnEditIsOfTheLifeOfItsOwnRun) {
  CreateScattered();
  Grow(12);
  const auto epoch = [this](size_t run) { return catalog_->runs().runs()[run].epoch; };
  for (int i = 0; i < 50 && (Runs() < 2 || epoch(0) == epoch(1)); i++) {
    ChunkRef one;  // has had one life more than those after it
    ASSERT_TRUE(Claim(&one, 1, Claimant::kIndex).ok());
    pool_->Free(one, &*persister_);
    ASSERT_TRUE(catalog_->Rewrite().ok());
  }
  ASSERT_TRUE(Runs() > 1 && epoch(0) != epoch(1));
  const uint64_t at = catalog_->bytes_used();
  ASSERT_GT(at, kChunkBytesMin) << "the next edit is not in the first run";
  const std::string name = "the last";
  MustAdd(name);
  EditHeader header;
  char* const edit = catalog_->runs().At(at).address;
  std::memcpy(&header, edit, sizeof(header));
  const auto checksum = [&](uint32_t seed) {
    const uint32_t crc = Crc32c(Crc32c(seed, &at, sizeof(at)), &header.size, 12);
    return Crc32c(crc, name.data(), name.size());
  };
  ASSERT_EQ(header.checksum, checksum(catalog_->runs().EpochAt(at)));
  header.checksum = checksum(epoch(0));
  std::memcpy(edit, &header, sizeof(header));
  const Status s = TryReopen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "expected the checksum")) << s.ToString();
}

TEST_F(CatalogInPieces, ARewriteThatFindsNoRoomLeavesWhatItFound) {
  CreateScattered(32);
  Grow(12);
  std::vector<ChunkRef> taken;
  for (ChunkRef chunk; pool_->free_chunks() > 1 && Claim(&chunk, 1, Claimant::kIndex).ok();)
    taken.push_back(chunk);
  const uint64_t free = pool_->free_chunks();
  const size_t runs = Runs();
  const Status s = catalog_->Rewrite();
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_EQ(pool_->free_chunks(), free);
  EXPECT_EQ(Runs(), runs);
  for (const ChunkRef& chunk : taken) pool_->Free(chunk, &*persister_);
  EXPECT_TRUE(catalog_->Rewrite().ok());
}

// As a second rewrite leaves it whose chunks are the first one's: nothing of an earlier generation
// is taken for what goes on.
TEST_F(CatalogInPieces, AHeadOfAnotherGenerationOrACircleIsCorruption) {
  CreateScattered();
  Grow(12);
  ASSERT_GT(Runs(), 2u);
  const std::vector<ChunkRef> runs = catalog_->runs().runs();
  const auto change = [&](const ChunkRef& run, const auto& set) {
    auto* const head = pool_->At<CatalogHead>(pool_->ChunkStart(run));
    const std::string before(reinterpret_cast<const char*>(head), sizeof(*head));
    set(head);
    const uint64_t words[3] = {head->magic, head->generation, head->next};
    head->checksum = Crc32c(run.epoch, words, head->next == 0 ? 16 : 24);
    Status s = TryReopen();
    std::memcpy(pool_->At<char>(pool_->ChunkStart(run)), before.data(), before.size());
    return s;
  };
  Status s = change(runs[1], [](CatalogHead* head) { head->generation--; });
  EXPECT_TRUE(s.IsCorruption() && Says(s, "generation")) << s.ToString();
  s = change(runs[2], [&](CatalogHead* head) { head->next = runs[1].index; });
  EXPECT_TRUE(s.IsCorruption() && Says(s, "circle")) << s.ToString();
  s = change(runs[0], [](CatalogHead* head) { head->next = 0; });
  EXPECT_TRUE(s.IsCorruption() && Says(s, "tail word")) << s.ToString();
  s = change(runs[1], [](CatalogHead* head) { head->next = 1; });
  EXPECT_TRUE(s.IsCorruption() && Says(s, "no catalog chunk")) << s.ToString();
  Reopen();
}

class CatalogOnPages : public CatalogTest {
 protected:
  CatalogOnPages() { options_.medium = MediumKind::kPage; }

  // Loses what the second of three edits wrote, as a power cut may when nothing was synced.
  void LoseTheSecondEdit() {
    CreateCatalog();
    MustAdd("aaaaaaaa");
    const uint64_t at = ChunkOffset() + catalog_->bytes_used();
    MustAdd("bbbbbbbb");
    const uint64_t end = ChunkOffset() + catalog_->bytes_used();
    MustAdd("cccccccc");
    CloseCatalog();
    std::string bytes = ReadWhole(path());
    std::memset(bytes.data() + at, 0, end - at);
    WriteWhole(path(), bytes);
  }
};

TEST_F(CatalogOnPages, AfterAPowerCutTheEditsBeforeALostOneCount) {  // I3
  LoseTheSecondEdit();
  PretendPowerCut();
  Reopen();
  EXPECT_EQ(names_, Names{"aaaaaaaa"});
  // just as long: the third edit of before is whole after it, and must stay dead
  MustAdd("BBBBBBBB");
  ASSERT_TRUE(pool_->MarkOpen().ok());
  Reopen();
  EXPECT_EQ(names_, (Names{"aaaaaaaa", "BBBBBBBB"}));
}

// The first cut keeps the old tail, the second the old edit.
TEST_F(CatalogOnPages, AnEditBeyondTheTailStaysDead) {  // I4
  CreateCatalog();
  MustAdd("aaaaaaaa");
  const uint64_t start = ChunkOffset();
  const uint64_t at = start + catalog_->bytes_used();
  const std::string head = ReadWhole(path()).substr(start, sizeof(CatalogHead));
  MustAdd("bbbbbbbb");
  const uint64_t end = ChunkOffset() + catalog_->bytes_used();
  CloseCatalog();
  std::string bytes = ReadWhole(path());
  bytes.replace(start, head.size(), head);
  WriteWhole(path(), bytes);
  PretendPowerCut();
  Reopen();
  EXPECT_EQ(names_, Names{"aaaaaaaa"});
  const std::string synced = ReadWhole(path()).substr(at, end - at);
  MustAdd("cccccccc");
  CloseCatalog();
  bytes = ReadWhole(path());
  bytes.replace(at, synced.size(), synced);
  WriteWhole(path(), bytes);
  PretendPowerCut();
  Reopen();
  EXPECT_EQ(names_, Names{"aaaaaaaa"});
}

class CatalogInPiecesOnPages : public CatalogInPieces {
 protected:
  CatalogInPiecesOnPages() { options_.medium = MediumKind::kPage; }
};

TEST_F(CatalogInPiecesOnPages, AfterAPowerCutTheEditsBeforeALostOneCount) {  // I3
  CreateScattered();
  Grow(8);
  ASSERT_GT(Runs(), 1u);
  MustAdd("aaaaaaaa");
  const Names expected = names_;
  const uint64_t at = catalog_->bytes_used();
  MustAdd("bbbbbbbb");
  const uint64_t bytes = catalog_->bytes_used() - at;
  const CatalogRuns::Piece lost = catalog_->runs().At(at);
  ASSERT_TRUE(at > kChunkBytesMin && bytes <= lost.bytes);
  MustAdd("cccccccc");
  CloseCatalog();
  std::string file = ReadWhole(path());
  std::memset(file.data() + lost.chunk * kChunkBytesMin + lost.offset, 0, bytes);
  WriteWhole(path(), file);
  PretendPowerCut();
  Reopen();
  EXPECT_EQ(names_, expected);
  MustAdd("BBBBBBBB");  // just as long: the third edit of before is whole after it
  ASSERT_TRUE(pool_->MarkOpen().ok());
  Reopen();
  EXPECT_EQ(names_.size(), expected.size() + 1);
}

TEST_F(CatalogOnPages, OpeningChangesNothingAndMendingMovesTheTail) {
  LoseTheSecondEdit();
  PretendPowerCut();
  Open();
  const std::string before = ReadWhole(path());
  Names names;
  ASSERT_TRUE(
      Catalog::Open(pool_.get(), [this] { return Snapshot(); }, Reader(&names), &catalog_).ok());
  EXPECT_EQ(names, Names{"aaaaaaaa"});
  EXPECT_EQ(ReadWhole(path()), before);
  ASSERT_TRUE(catalog_->Mend().ok());
  EXPECT_NE(ReadWhole(path()), before);
}

TEST_F(CatalogOnPages, WithoutAPowerCutALostEditIsCorruption) {
  LoseTheSecondEdit();
  EXPECT_TRUE(TryReopen().IsCorruption());
}

// However full gc, flushes and deletes make the pool: without its catalog the store could not go
// on.
TEST_F(CatalogTest, ARewriteFindsRoomInAPoolThatIsFull) {
  options_.pool_bytes_max = 64 * kChunkBytesMin;
  CreateCatalog();
  MustAdd(std::string(kChunkBytesMin / 4, 'x'));
  ASSERT_TRUE(catalog_->Rewrite().ok());
  const auto fill = [this] {
    ChunkRef chunk;
    Status s;
    while ((s = Claim(&chunk, 1, Claimant::kReclaim)).ok()) {
    }
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  };
  fill();
  for (int i = 0; i < 3; i++) {
    const Status s = catalog_->Rewrite();
    ASSERT_TRUE(s.ok()) << "rewrite " << i << ": " << s.ToString();
    fill();
  }
  const Names expected = names_;
  ASSERT_TRUE(TryReopen().ok());
  EXPECT_EQ(names_, expected);
  fill();
  ASSERT_TRUE(catalog_->Rewrite().ok()) << "what is kept is known from the open on";
}

}  // namespace
}  // namespace lamella
