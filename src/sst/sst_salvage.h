// SalvageSst finds what is left of an SST's file that is damaged, cut off, or without its end:
// every data block that validates by itself. For repair; whoever reads a whole table opens it
// (sst/sst.h).
// V1: no block is missed that is whole, and what is no block of this table is none here either.
// V2: it takes time in proportion to the file, whatever is in it.
// Threads: any.
#ifndef LAMELLA_SST_SST_SALVAGE_H_
#define LAMELLA_SST_SST_SALVAGE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "file/file_system.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "sst/sst_format.h"

namespace lamella {

struct SstSalvage {
  uint64_t blocks = 0;  // data blocks that were whole
  uint64_t records = 0;
  uint64_t lost_bytes = 0;  // of the file, in no whole block and no footer

  /// Records that are missing, of so many; of a table that may have had any number (0), as many as
  /// those bytes hold where they are not compressed.
  uint64_t LostAtMost(uint64_t of) const {
    constexpr uint64_t kEntryBytesMin = 5;
    return of != 0 ? of - std::min(of, records)
                   : (lost_bytes + kEntryBytesMin - 1) / kEntryBytesMin;
  }
};

/// Visits the records of `directory`/TableFileName(identity.number) that are left, in the order of
/// the file, which is that of their keys; stops where `visit` does not answer OK, and says so.
/// NotFound: there is no file. IOError; may throw std::bad_alloc.
Status SalvageSst(FileSystem* files, const std::string& directory, const SstIdentity& identity,
                  const std::function<Status(const InternalKey&, std::string_view value)>& visit,
                  SstSalvage* salvage);

/// Which table of which store the file says that it is. Corruption: it does not, or what says so
/// does not validate. NotFound, IOError.
Status ReadSstIdentity(FileSystem* files, const std::string& path, SstIdentity* identity);

}  // namespace lamella

#endif  // LAMELLA_SST_SST_SALVAGE_H_
