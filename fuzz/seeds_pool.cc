// The seeds of what lies in the pool: records, the catalog, floors, the superblock.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/codec.h"
#include "base/hash.h"
#include "base/key_head.h"
#include "engine/labdb/labdb_state.h"
#include "engine/level_table.h"
#include "engine/leveled_state.h"
#include "engine/lightkv/lightkv_state.h"
#include "engine/listdb/state.h"
#include "engine/zipperdb/state.h"
#include "fuzz/fuzz.h"
#include "fuzz/seeds.h"
#include "index/floor.h"
#include "log/record.h"
#include "pool/catalog.h"
#include "pool/superblock.h"

namespace lamella::fuzz {
namespace {

// --- records ---

std::string RecordOf(uint64_t sequence, RecordKind kind, const std::string& key,
                     const std::string& value, uint8_t height = 0, uint32_t batch_remaining = 0) {
  const RecordHeader header{.tag = MakeTag(sequence, kind),
                            .checksum = kSealHere,
                            .value_size = static_cast<uint32_t>(value.size()),
                            .key_size = static_cast<uint16_t>(key.size()),
                            .shape = MakeShape(height, sequence, sequence / 2),
                            .mark = 0,
                            .batch_remaining = batch_remaining};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  for (uint8_t layer = 0; layer < height; layer++) AppendFixed<uint64_t>(&bytes, kEndLink);
  bytes += key + value;
  bytes.resize((bytes.size() + 7) & ~size_t{7}, '\0');
  return bytes;
}
std::string PutOf(uint64_t sequence, uint8_t height = 1) {
  return RecordOf(sequence, RecordKind::kPut, "key" + std::to_string(sequence), "value", height);
}
std::string Lined(std::string bytes) {
  bytes.resize((bytes.size() + 63) & ~size_t{63}, '\0');
  return bytes;
}

struct LogSeed {
  uint8_t flags = 0;
  uint8_t base = 0;
  std::vector<std::pair<uint8_t, uint8_t>> gaps;
  std::vector<std::pair<uint8_t, uint16_t>> boundary;
  std::vector<std::string> chunks;

  std::string Bytes() const {
    std::string out;
    AppendFixed(&out, flags);
    AppendFixed(&out, base);
    AppendFixed(&out, static_cast<uint8_t>(gaps.size()));
    for (const auto& [distance, length] : gaps)
      out += {static_cast<char>(distance), static_cast<char>(length)};
    AppendFixed(&out, static_cast<uint8_t>(boundary.size()));
    for (const auto& [ordinal, offset] : boundary) {
      AppendFixed(&out, ordinal);
      AppendFixed(&out, offset);
    }
    for (const std::string& chunk : chunks) {
      AppendFixed(&out, static_cast<uint16_t>(chunk.size()));
      out += chunk;
    }
    return out;
  }
};

}  // namespace

void MakeRecords(const std::filesystem::path& root) {
  Corpus corpus(root, "records");
  const std::string batch = RecordOf(2, RecordKind::kPut, "a", "1", 1, 2) +
                            RecordOf(3, RecordKind::kDelete, "b", "", 2, 1) +
                            RecordOf(4, RecordKind::kPut, "c", std::string(100, 'v'), 12, 0);
  corpus.Add("empty", LogSeed{}.Bytes());
  corpus.Add("three", LogSeed{.chunks = {PutOf(1) + PutOf(2, 0) + PutOf(3, 12)}}.Bytes());
  corpus.Add("sealed-line",
             LogSeed{.chunks = {Lined(PutOf(1)) + Lined(PutOf(2)) + PutOf(3)}}.Bytes());
  corpus.Add("batch", LogSeed{.chunks = {PutOf(1) + batch + PutOf(5)}}.Bytes());
  corpus.Add("torn-batch",
             LogSeed{.chunks = {PutOf(1) + batch.substr(0, batch.size() - 8)}}.Bytes());
  std::string torn = PutOf(1) + batch;
  torn[PutOf(1).size() + 24] = '\x7f';  // a link is not covered
  torn[PutOf(1).size() + 8] = 0;        // the checksum is
  corpus.Add("tear-in-batch", LogSeed{.chunks = {torn}}.Bytes());
  corpus.Add("tear-and-more", LogSeed{.chunks = {torn + PutOf(5) + PutOf(6)}}.Bytes());
  corpus.Add("holes", LogSeed{.flags = 1, .chunks = {torn + PutOf(5), PutOf(6)}}.Bytes());
  corpus.Add(
      "two-shards",
      LogSeed{.chunks = {PutOf(1) + PutOf(4), PutOf(6), PutOf(2) + PutOf(3), PutOf(5)}}.Bytes());
  corpus.Add("gap", LogSeed{.gaps = {{2, 3}},
                            .chunks = {PutOf(1) + PutOf(2) + PutOf(4), PutOf(7), PutOf(8)}}
                        .Bytes());
  corpus.Add("two-gaps",
             LogSeed{.base = 1, .gaps = {{1, 0}, {0, 2}}, .chunks = {PutOf(3) + PutOf(7)}}.Bytes());
  corpus.Add("lost-before-gap", LogSeed{.gaps = {{3, 0}}, .chunks = {PutOf(1) + PutOf(5)}}.Bytes());
  corpus.Add("boundary", LogSeed{.base = 2,
                                 .boundary = {{2, 64}, {1, 0}},
                                 .chunks = {PutOf(1), Lined(PutOf(2)) + PutOf(3), PutOf(4)}}
                             .Bytes());
  corpus.Add("boundary-odd", LogSeed{.boundary = {{1, 3}}, .chunks = {PutOf(1)}}.Bytes());
  corpus.Add("boundary-behind", LogSeed{.boundary = {{1, 65535}}, .chunks = {PutOf(1)}}.Bytes());
  corpus.Add(
      "within",
      LogSeed{.chunks = {RecordOf(1, RecordKind::kPut, "outer", PutOf(2) + PutOf(3)) + PutOf(4)}}
          .Bytes());
  RecordHeader to_the_end{.tag = MakeTag(1, RecordKind::kPut),
                          .checksum = kSealHere,
                          .value_size = 65536 - 24 - 8,
                          .key_size = 8};
  corpus.Add("whole-chunk",
             LogSeed{.chunks = {std::string(reinterpret_cast<const char*>(&to_the_end),
                                            sizeof(to_the_end)) +
                                "the key."}}
                 .Bytes());
  to_the_end.value_size = 0xffffffff;
  corpus.Add("too-large", LogSeed{.chunks = {std::string(reinterpret_cast<const char*>(&to_the_end),
                                                         sizeof(to_the_end)) +
                                             "the key." + PutOf(2)}}
                              .Bytes());
}

namespace {

// --- catalog ---

std::string EditOf(uint32_t kind, const std::string& payload) {
  const EditHeader header{.checksum = kSealHere,
                          .size = static_cast<uint32_t>(payload.size()),
                          .kind = kind,
                          .reserved = 0};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += payload;
  bytes.resize((bytes.size() + 7) & ~size_t{7}, '\0');
  return bytes;
}

std::string CatalogOf(char flags, const std::string& edits, uint64_t tail) {
  std::string bytes(1, flags);
  AppendFixed<uint64_t>(&bytes, kCatalogMagic);
  AppendFixed<uint64_t>(&bytes, 3);  // generation
  AppendFixed<uint32_t>(&bytes, static_cast<uint32_t>(tail / 8));
  AppendFixed<uint32_t>(&bytes, kSealHere);
  AppendFixed<uint32_t>(&bytes, kSealHere);
  bytes.resize(1 + sizeof(CatalogHead), '\0');
  return bytes + edits;
}
std::string CatalogOf(char flags, const std::string& edits) {
  return CatalogOf(flags, edits, sizeof(CatalogHead) + edits.size());
}

ListDbState StateOf(uint32_t tables) {
  ListDbState state;
  state.lanes = 2;
  state.l1_heads = PmPtr(0, 1 << 20);
  state.l1_count = 1000;
  state.next_table_id = tables + 1;
  state.flushed_sequence = 77;
  state.boundary = {{1, 64}, {2, 128}};
  state.merged = {{1, 64}};
  state.gaps = {{5, 9}, {12, 12}};
  for (uint32_t i = 0; i < tables; i++) {
    PmTableState table{.id = i,
                       .count = 10,
                       .last_sequence = 20 + i,
                       .arena_ordinal = 0,
                       .sealed = {{1, 64}},
                       .heads = {}};
    table.heads.assign(2 * kHeightMax, kEndLink);
    state.l0.push_back(table);
  }
  return state;
}

LeveledState LeveledStateOf(uint32_t tables) {
  LeveledState state;
  state.next_number = 100;
  state.flushed_sequence = 77;
  state.boundary = {{1, 64}, {2, 128}};
  state.gaps = {{80, 90}};
  TableEdit<TableInfo> edit;
  for (uint32_t i = 0; i < tables; i++) {
    LevelPlace place;
    place.live_bytes = 1000;
    place.regions = {{10 + i, 640}, {50, 1000}};
    place.design = "design";
    edit.added.push_back(
        {i % 2, std::make_shared<TableInfo>(TableInfo{.number = 10 + i,
                                                      .smallest = "key" + std::to_string(i),
                                                      .largest = "key" + std::to_string(i) + "z",
                                                      .bytes = 1640,
                                                      .records = 9,
                                                      .last_sequence = 70,
                                                      .place = place.Encode()})});
  }
  if (!state.levels.Apply(edit)) std::abort();
  return state;
}

// Lists at so many levels, the upper ones frozen and on their way down.
ZipperDbState ZipperDbStateOf(uint32_t levels) {
  ZipperDbState state;
  state.next_list_id = levels + 2;
  state.flushed_sequence = 77;
  state.boundary = {{1, 64}, {2, 128}};
  state.gaps = {{5, 9}, {12, 12}};
  for (uint32_t level = 0; level <= levels; level++) {
    const bool bottom = level == levels;
    ZipperListState list{.id = bottom ? kBottomList : level + 2,
                         .level = level,
                         .frozen = !bottom,
                         .heads = PmPtr(0, uint64_t{level + 1} << 16),
                         .count = 10,
                         .live_bytes = 1000,
                         .bytes = 2000,
                         .last_sequence = 70 - level};
    if (!bottom) list.merge.into = kBottomList;
    list.runs = {{kFlushRuns, 10 - level, 11 - level}, {kMergeRuns + level, 3, 7}};
    state.lists.push_back(list);
  }
  state.flush = {{state.lists.front().id, {kFlushRuns, 11, 12}}, 90, {{2, 64}}};
  return state;
}

// Of an engine whose tables are all in files: without tables, with some, and cut off.
template <class State>
void AddStates(const std::string& name, const std::string& flags, State state, Corpus* corpus) {
  corpus->Add(name + "-none", flags + state.Encode());
  state.levels = LeveledStateOf(4).levels;
  corpus->Add(name, flags + state.Encode());
  corpus->Add(name + "-cut", flags + state.Encode().substr(0, 150));
}

}  // namespace

void MakeCatalog(const std::filesystem::path& root) {
  Corpus corpus(root, "catalog");
  const std::string snapshot = EditOf(0, StateOf(1).Encode());
  const std::string edits =
      snapshot + EditOf(1, StateOf(2).EncodeChange(StateOf(1))) + EditOf(4, "odd") + EditOf(2, "");
  std::string torn = edits;
  torn[snapshot.size()] = 0;  // the second edit's checksum
  for (const char flags : {'\0', '\1'}) {
    const std::string medium = flags == 0 ? "" : "-lost-pages";
    corpus.Add("snapshot" + medium, CatalogOf(flags, snapshot));
    corpus.Add("edits" + medium, CatalogOf(flags, edits));
    corpus.Add("damaged-edit" + medium, CatalogOf(flags, torn));
    corpus.Add("tail-within-an-edit" + medium,
               CatalogOf(flags, edits, sizeof(CatalogHead) + snapshot.size() + 8));
    corpus.Add("tail-behind" + medium,
               CatalogOf(flags, edits, sizeof(CatalogHead) + edits.size() + 64));
    corpus.Add("no-snapshot" + medium, CatalogOf(flags, EditOf(1, "edit")));
  }
  corpus.Add("empty", "");
  corpus.Add("tail-beyond-the-chunk", CatalogOf(0, edits, 1 << 20));
  std::string whole = EditOf(0, "");
  const uint32_t size = (64 << 10) - sizeof(CatalogHead) - sizeof(EditHeader);
  std::memcpy(whole.data() + 4, &size, sizeof(size));
  corpus.Add("whole-chunk", CatalogOf(0, whole, 64 << 10));
  for (const uint32_t tables : {0, 1, 5})
    corpus.Add("state-" + std::to_string(tables), "\2" + StateOf(tables).Encode());
  ListDbState rebuilding = StateOf(0);
  rebuilding.rebuilding = true;
  corpus.Add("state-rebuilding", "\2" + rebuilding.Encode());
  for (const uint32_t tables : {0, 1, 6})
    corpus.Add("levels-" + std::to_string(tables), "\2" + LeveledStateOf(tables).Encode());
  corpus.Add("levels-cut", "\2" + LeveledStateOf(3).Encode().substr(0, 200));
  const LeveledState flushed = LeveledStateOf(3);
  LeveledState compacted = flushed;
  if (!compacted.levels.Apply({.removed = {10, 12}, .added = {}})) std::abort();
  corpus.Add("levels-edits",
             CatalogOf(0, EditOf(0, flushed.Encode()) + EditOf(2, compacted.EncodeChange(flushed)) +
                              EditOf(2, compacted.EncodeChange(flushed))));
  const LightKvState lightkv{.next_number = 100,
                             .flushed_sequence = 77,
                             .boundary = {{1, 64}, {2, 128}},
                             .gaps = {{80, 90}},
                             .levels = {}};
  AddStates("lightkv", "\x08", lightkv, &corpus);
  const LabDbState labdb{.next_number = 100,
                         .flushed_sequence = 77,
                         .heads = 1 << 20,
                         .active = 1,
                         .has_older = 1,
                         .segment_bytes = 1 << 20,
                         .boundary = {{1, 64}, {2, 128}},
                         .gaps = {{80, 90}},
                         .levels = {}};
  AddStates("labdb", "\x10", labdb, &corpus);
  for (const uint32_t levels : {0, 1, 3})
    corpus.Add("zipperdb-" + std::to_string(levels), "\4" + ZipperDbStateOf(levels).Encode());
  corpus.Add("zipperdb-cut", "\4" + ZipperDbStateOf(2).Encode().substr(0, 150));
  corpus.Add("zipperdb-edits",
             CatalogOf(0, EditOf(0, ZipperDbStateOf(1).Encode()) +
                              EditOf(6, ZipperDbStateOf(0).EncodeChange(ZipperDbStateOf(1)))));
  corpus.Add("state-cut", "\2" + StateOf(2).Encode().substr(0, 150));
}

namespace {

// --- floors ---

/// An entry by its record's number, with its link.
struct EntrySeed {
  uint8_t record = 0;
  FloorLink link;
};
std::string FloorOf(uint32_t number, const std::vector<EntrySeed>& entries,
                    const std::string& prefix = "key") {
  const auto count = static_cast<uint32_t>(entries.size());
  const FloorLayout layout = FloorLayout::Of(count, 1, static_cast<uint32_t>(prefix.size()));
  const FloorHeader header{.magic = kFloorMagic,
                           .header_checksum = kSealHere,
                           .body_checksum = kSealHere,
                           .entry_count = count,
                           .floors_below = number,
                           .prefix_bytes = static_cast<uint32_t>(prefix.size()),
                           .filter_lines = 1,
                           .index_bytes = layout.end,
                           .reserved = {}};
  std::string bytes(layout.end, '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (uint32_t i = 0; i < count; i++) {
    const std::string key = "key" + std::to_string(entries[i].record / 2);
    const uint64_t head = HeadAfter(key, prefix.size());
    std::memcpy(bytes.data() + layout.heads + i * sizeof(head), &head, sizeof(head));
    bytes[layout.places + i * sizeof(uint64_t)] = static_cast<char>(entries[i].record);
    const uint32_t link = entries[i].link.floor | uint32_t{entries[i].link.offset} << 8;
    std::memcpy(bytes.data() + layout.links + i * FloorLayout::kLinkBytes, &link,
                FloorLayout::kLinkBytes);
    reinterpret_cast<FilterLine*>(bytes.data() + layout.filter)->Add(Hash64(key));
  }
  std::memcpy(bytes.data() + layout.prefix, prefix.data(), prefix.size());
  return bytes;
}
std::string FloorsOf(const std::string& bottom, const std::string& top) {
  std::string out;
  for (const std::string& floor : {bottom, top}) {
    AppendFixed(&out, static_cast<uint16_t>(floor.size()));
    out += floor;
  }
  return out;
}

}  // namespace

void MakeFloor(const std::filesystem::path& root) {
  Corpus corpus(root, "floor");
  const FloorLink none;
  const std::string bottom = FloorOf(0, {{1, none}, {3, none}, {5, none}, {7, none}});
  const std::string top = FloorOf(1, {{0, {0, 0}}, {4, {0, 2}}, {6, {0, 3}}});
  corpus.Add("empty", "");
  corpus.Add("two", FloorsOf(bottom, top));
  corpus.Add("one-entry", FloorsOf(FloorOf(0, {{2, none}}), FloorOf(1, {{6, none}})));
  corpus.Add("no-prefix", FloorsOf(FloorOf(0, {{0, none}, {1, none}}, ""), top));
  corpus.Add("link-beyond", FloorsOf(FloorOf(0, {{1, none}}), FloorOf(1, {{0, {0, 1}}})));
  corpus.Add("link-to-itself", FloorsOf(bottom, FloorOf(1, {{0, {1, 0}}})));
  corpus.Add("link-too-late", FloorsOf(bottom, FloorOf(1, {{0, {0, 2}}, {6, {0, 3}}})));
  corpus.Add("not-in-order", FloorsOf(FloorOf(0, {{5, none}, {1, none}}), top));
  corpus.Add("older-first", FloorsOf(FloorOf(0, {{1, none}, {0, none}}), top));
  corpus.Add("other-number", FloorsOf(FloorOf(1, {{1, none}}), FloorOf(0, {{1, none}})));
  corpus.Add("cut", FloorsOf(bottom.substr(0, 100), top));
  std::string large = bottom;
  large[16 + 3] = '\x7f';  // entries
  corpus.Add("too-large", FloorsOf(large, top));
}

namespace {

// --- superblock ---

Superblock SuperblockOf() {
  Superblock s{};
  s.magic = kSuperblockMagic;
  s.checksum = kSealHere;
  s.format_major = kFormatMajor;
  s.format_minor = kFormatMinor;
  s.generation = 9;
  for (uint8_t i = 0; i < 16; i++) s.uuid[i] = static_cast<uint8_t>(i * 17);
  s.part_count = 1;
  s.chunk_bytes = kChunkBytesMin;
  s.chunks_min = 0;  // so that no chunk needs a state
  s.engine = 1;
  s.clean = 1;
  s.epoch_floor = 1000;
  return s;
}
std::string BytesOf(const Superblock& s) {
  return std::string(reinterpret_cast<const char*>(&s), sizeof(s));
}

}  // namespace

void MakeSuperblock(const std::filesystem::path& root) {
  Corpus corpus(root, "superblock");
  const Superblock good = SuperblockOf();
  const auto both = [&](const std::string& name, const Superblock& s, uint8_t pages = 0) {
    corpus.Add(name, std::string(1, static_cast<char>(pages)) + BytesOf(s) + BytesOf(s));
  };
  const auto with = [&](auto&& change) {
    Superblock s = good;
    change(&s);
    return s;
  };
  corpus.Add("as-made", "");
  both("good", good);
  both("not-clean", with([](Superblock* s) { s->clean = 0; }));
  both("clean-is-2", with([](Superblock* s) { s->clean = 2; }));
  both("newer-format", with([](Superblock* s) { s->format_major = kFormatMajor + 1; }));
  both("unknown-feature",
       with([](Superblock* s) { s->incompatible_features = uint64_t{1} << 63; }));
  both("ignored-feature", with([](Superblock* s) { s->compatible_features = ~uint64_t{0}; }));
  both("larger-chunks", with([](Superblock* s) { s->chunk_bytes = 128 << 10; }));
  both("odd-chunks", with([](Superblock* s) { s->chunk_bytes = 100000; }));
  both("huge-chunks", with([](Superblock* s) { s->chunk_bytes = kChunkBytesMax; }));
  both("two-parts", with([](Superblock* s) { s->part_count = 2; }));
  both("no-parts", with([](Superblock* s) { s->part_count = 0; }));
  both("other-part", with([](Superblock* s) {
         s->part = 1;
         s->part_count = 2;
       }));
  both("other-engine", with([](Superblock* s) { s->engine = 200; }));
  both("catalog-chunk", with([](Superblock* s) { s->catalog_chunk = 0xffffffff; }));
  both("more-chunks", with([](Superblock* s) { s->chunks_min = 14; }));
  both("chunks-without-a-state", with([](Superblock* s) { s->chunks_min = 10; }));
  both("high-epochs", with([](Superblock* s) { s->epoch_floor = 0xfffffff0; }));
  both("high-epochs-not-clean", with([](Superblock* s) {
         s->epoch_floor = 0xffffff00;
         s->clean = 0;
       }));
  both("cut-file", good, 40);
  both("one-page", good, 1);
  both("half-a-chunk-over", good, 15 * 16 + 8);
  const std::string older = BytesOf(with([](Superblock* s) {
    s->generation = 8;
    s->catalog_chunk = 4;
  }));
  std::string torn = BytesOf(good);
  torn[8] = 0;
  corpus.Add("second-older", std::string(1, '\0') + BytesOf(good) + older);
  corpus.Add("first-torn", std::string(1, '\0') + torn + older);
  corpus.Add("both-torn", std::string(1, '\0') + torn + torn);
  corpus.Add("zeros", std::string(257, '\0'));
  std::string descriptors(1, '\0');
  descriptors += BytesOf(good) + BytesOf(good) + std::string(2 * 64, '\0');
  for (int i = 0; i < 4; i++) {
    // owned by a log, and not sealed
    AppendFixed<uint64_t>(&descriptors, uint64_t{3} | uint64_t{7} << 32);
    descriptors.resize(descriptors.size() + 56, '\0');
  }
  corpus.Add("descriptors", descriptors);
}

}  // namespace lamella::fuzz
