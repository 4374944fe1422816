// ValueFile is a file of values that is there, open for reading.
// I1: once it is obsolete, its name goes with the last who holds it. Whoever has read access to it
//     then reads on.
// Threads: any.
#ifndef LAMELLA_LOG_VALUE_FILE_H_
#define LAMELLA_LOG_VALUE_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "file/file_system.h"
#include "file/table_file_name.h"

namespace lamella {

class ValueFile {
 public:
  ValueFile(FileSystem* files, const std::string& directory, const ValueFileId& id, ReadVia via)
      : files_(files), id_(id), path_(directory + "/" + ValueFileName(id)), via_(via) {}
  ~ValueFile() { RemoveIfObsolete(); }
  ValueFile(const ValueFile&) = delete;
  ValueFile& operator=(const ValueFile&) = delete;

  const ValueFileId& id() const { return id_; }
  const std::string& path() const { return path_; }
  /// Opens it, or opens it anew when it has grown. NotFound, IOError, NotSupported. Throws
  /// std::bad_alloc.
  Status Open();
  /// What Open opened last.
  std::shared_ptr<const RandomFile> opened() const {
    const MutexLock lock(&mu_);
    return opened_;
  }
  /// The file is to go (I1).
  void MakeObsolete() { obsolete_.store(true, std::memory_order_release); }
  bool obsolete() const { return obsolete_.load(std::memory_order_acquire); }
  /// Removes its name now, where it is to go: it may be held for longer than its file system is
  /// there. REQUIRES: nobody opens it any more.
  void RemoveIfObsolete();

 private:
  FileSystem* const files_;
  const ValueFileId id_;
  const std::string path_;
  const ReadVia via_;
  std::atomic<bool> obsolete_{false};
  mutable Mutex mu_;
  std::shared_ptr<const RandomFile> opened_ LAMELLA_GUARDED_BY(mu_);
};

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_FILE_H_
