// docs/FORMAT.md against the pool's media types.
#include <sstream>

#include <gtest/gtest.h>

#include "pool/catalog.h"
#include "pool/chunk_table.h"
#include "pool/superblock.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

using testing::FormatField;

void ExpectDocumented(const std::string& type, size_t bytes,
                      const std::vector<FormatField>& fields) {
  EXPECT_EQ(testing::FormatDifference(type, bytes, fields), "");
}

TEST(Format, SuperblockIsAsDocumented) {
  ExpectDocumented("Superblock", sizeof(Superblock),
                   {LAMELLA_FORMAT_FIELD(Superblock, magic),
                    LAMELLA_FORMAT_FIELD(Superblock, checksum),
                    LAMELLA_FORMAT_FIELD(Superblock, format_major),
                    LAMELLA_FORMAT_FIELD(Superblock, format_minor),
                    LAMELLA_FORMAT_FIELD(Superblock, compatible_features),
                    LAMELLA_FORMAT_FIELD(Superblock, incompatible_features),
                    LAMELLA_FORMAT_FIELD(Superblock, generation),
                    LAMELLA_FORMAT_FIELD(Superblock, uuid),
                    LAMELLA_FORMAT_FIELD(Superblock, part),
                    LAMELLA_FORMAT_FIELD(Superblock, part_count),
                    LAMELLA_FORMAT_FIELD(Superblock, chunk_bytes),
                    LAMELLA_FORMAT_FIELD(Superblock, chunks_min),
                    LAMELLA_FORMAT_FIELD(Superblock, catalog_chunk),
                    LAMELLA_FORMAT_FIELD(Superblock, engine_flags),
                    LAMELLA_FORMAT_FIELD(Superblock, engine),
                    LAMELLA_FORMAT_FIELD(Superblock, clean),
                    LAMELLA_FORMAT_FIELD(Superblock, sync_failed),
                    LAMELLA_FORMAT_FIELD(Superblock, reserved0),
                    LAMELLA_FORMAT_FIELD(Superblock, epoch_floor),
                    LAMELLA_FORMAT_FIELD(Superblock, boot_id),
                    LAMELLA_FORMAT_FIELD(Superblock, file_id)});
}

TEST(Format, ChunkDescriptorIsAsDocumented) {
  ExpectDocumented(
      "ChunkDescriptor", sizeof(ChunkDescriptor),
      {LAMELLA_FORMAT_FIELD(ChunkDescriptor, state), LAMELLA_FORMAT_FIELD(ChunkDescriptor, ordinal),
       LAMELLA_FORMAT_FIELD(ChunkDescriptor, run_chunks),
       LAMELLA_FORMAT_FIELD(ChunkDescriptor, reserved0),
       LAMELLA_FORMAT_FIELD(ChunkDescriptor, dead_bytes),
       LAMELLA_FORMAT_FIELD(ChunkDescriptor, used_bytes),
       LAMELLA_FORMAT_FIELD(ChunkDescriptor, seal),
       LAMELLA_FORMAT_FIELD(ChunkDescriptor, whole_bytes),
       LAMELLA_FORMAT_FIELD(ChunkDescriptor, reserved1)});
}

TEST(Format, CatalogHeadAndEditHeaderAreAsDocumented) {
  ExpectDocumented(
      "CatalogHead", sizeof(CatalogHead),
      {LAMELLA_FORMAT_FIELD(CatalogHead, magic), LAMELLA_FORMAT_FIELD(CatalogHead, generation),
       LAMELLA_FORMAT_FIELD(CatalogHead, tail), LAMELLA_FORMAT_FIELD(CatalogHead, checksum),
       LAMELLA_FORMAT_FIELD(CatalogHead, next), LAMELLA_FORMAT_FIELD(CatalogHead, reserved)});
  ExpectDocumented(
      "EditHeader", sizeof(EditHeader),
      {LAMELLA_FORMAT_FIELD(EditHeader, checksum), LAMELLA_FORMAT_FIELD(EditHeader, size),
       LAMELLA_FORMAT_FIELD(EditHeader, kind), LAMELLA_FORMAT_FIELD(EditHeader, reserved)});
}

TEST(Format, TheComparisonSeesEveryKindOfMistake) {
  const auto problem = [](const std::string& text) {
    std::istringstream document(
        "### T (16 bytes)\n| offset | size | field | meaning |\n|---|---|---|---|\n" + text);
    const auto tables = testing::ParseFormatTables(document);
    return testing::FormatTableProblem(tables.at("T"));
  };
  EXPECT_EQ(problem("| 0 | 8 | a | |\n| 8 | 8 | b | x |\n"), "");
  EXPECT_NE(problem("| 0 | 8 | a | |\n| 9 | 8 | b | x |\n"), "");
  EXPECT_NE(problem("| 0 | 8 | a | |\n| 8 | 4 | b | x |\n"), "");
  EXPECT_NE(problem("| 8 | 8 | b | x |\n"), "");
  EXPECT_NE(problem(""), "");
  EXPECT_NE((LAMELLA_FORMAT_FIELD(EditHeader, size)), (FormatField{4, 8, "size"}));

  const std::vector<FormatField> fields = {
      LAMELLA_FORMAT_FIELD(EditHeader, checksum), LAMELLA_FORMAT_FIELD(EditHeader, size),
      LAMELLA_FORMAT_FIELD(EditHeader, kind), LAMELLA_FORMAT_FIELD(EditHeader, reserved)};
  EXPECT_EQ(testing::FormatDifference("EditHeader", 16, fields), "");
  EXPECT_NE(testing::FormatDifference("EditHead", 16, fields), "") << "not documented";
  EXPECT_NE(testing::FormatDifference("EditHeader", 24, fields), "") << "another size";
  EXPECT_NE(testing::FormatDifference("EditHeader", 16, {fields.begin(), fields.end() - 1}), "")
      << "a field too few";
  for (size_t i = 0; i < fields.size(); i++) {
    std::vector<FormatField> changed = fields;
    changed[i].name += "s";
    EXPECT_NE(testing::FormatDifference("EditHeader", 16, changed), "") << "another name";
    changed = fields;
    changed[i].offset += 1;
    EXPECT_NE(testing::FormatDifference("EditHeader", 16, changed), "") << "another place";
  }
}

}  // namespace
}  // namespace lamella
