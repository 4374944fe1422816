// AppendFile and RandomFile are the two lives of a table's file on block storage: it is written
// from its start to its end, once, and from then on only read, at any place.
//
// I1: after a call of an AppendFile failed, every later one answers with the same error and does
//     nothing. An fsync that failed drops the pages that it could not write, and the next one
//     succeeds without them: only a file written anew can be believed.
//
// Contract: FileSystem (file/file_system.h) makes both. Nothing throws: without memory a call
// answers IOError. Other codes of every call: NoSpace; Corruption where it says so. Each message
// names the call and the path.
// Threads: an AppendFile one at a time, a RandomFile any.
#ifndef LAMELLA_FILE_BLOCK_FILE_H_
#define LAMELLA_FILE_BLOCK_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "lamella/status.h"

namespace lamella {

/// A file that is written from its start to its end and then never changed. Letting go of it closes
/// the file, which stays; what was appended after the last Sync may be missing from it then.
class AppendFile {
 public:
  /// Small appends are collected up to so many bytes, in memory that is taken when first needed.
  static constexpr size_t kBufferBytes = 1 << 20;

  AppendFile() = default;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  virtual ~AppendFile() = default;

  /// Adds to the file's end. Readers see it, and it is durable, after a Sync only.
  virtual Status Append(std::string_view bytes) = 0;
  /// Nothing more is appended before the next Sync, which may be a while: what was collected is
  /// handed on to the device, and its memory is free. How it went Sync tells.
  virtual void WillSync() {}
  /// Everything appended is durable on return. The file's name is only after a SyncDirectory.
  virtual Status Sync() = 0;
  /// Bytes of all that Append took, written out or not.
  virtual uint64_t bytes() const = 0;
};

/// How a file's bytes are read: through the page cache, or past it, from the device (O_DIRECT).
enum class ReadVia : uint8_t { kPageCache, kDevice };

/// A file that does not change any more, open for reading. It can be read after its name is gone.
class RandomFile {
 public:
  /// What a read past the page cache starts at, ends at, and is put to: multiples of the largest
  /// logical block that devices have.
  static constexpr size_t kDeviceBlockBytes = 4096;

  RandomFile() = default;
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;
  virtual ~RandomFile() = default;

  /// Exactly the `n` bytes at `offset`. Corruption where the file ends before their end: the
  /// message says how many were found. What is at `to` after an error says nothing.
  virtual Status Read(uint64_t offset, size_t n, char* to) const = 0;
  /// The file's size when it was opened.
  virtual uint64_t bytes() const = 0;

  /// Reads that are not waited for (file/pending_reads.h). These bytes will be read soon, through
  /// the page cache, if that is how:
  virtual void WillRead(uint64_t /*offset*/, size_t /*n*/) const {}
  /// The blocks of a device that hold these bytes, where it is past it. No descriptor: they are to
  /// be had by Read alone.
  struct DeviceBlocks {
    int descriptor = -1;
    uint64_t begin = 0;
    size_t bytes = 0;
    std::shared_ptr<const void> keeps_open;  // the descriptor; null: the file does
  };
  virtual DeviceBlocks BlocksOf(uint64_t /*offset*/, size_t /*n*/) const { return {}; }
};

}  // namespace lamella

#endif  // LAMELLA_FILE_BLOCK_FILE_H_
