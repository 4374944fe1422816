// OpenFiles holds how many of the files that a process reads are open at a time: beyond half of the
// descriptors that the process may have (RLIMIT_NOFILE) such as were not read of late are closed,
// and opened anew by whoever reads them next. So the number of a store's tables is not bounded by
// that of descriptors.
//
// O1: a file is closed beneath nobody: who reads it holds it open until the read is done.
// O2: no more than the limit are open beside those that are being read.
// O3: where the system opens no more of them, since the process has used up its descriptors
//     elsewhere, those that are held open here make room.
// Threads: any.
#ifndef LAMELLA_FILE_OPEN_FILES_H_
#define LAMELLA_FILE_OPEN_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"
#include "file/file_system.h"

namespace lamella {

class OpenFiles {
 public:
  /// Of all stores of the process; lives as long as it does.
  static OpenFiles* OfProcess();

  /// Of so many; 0 is half of what the process may have. It outlives its files.
  explicit OpenFiles(size_t files_max = 0) : files_max_(files_max) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  /// How many files a thread that writes several may have open at a time: at least one, and a small
  /// part of what the process may have.
  static size_t WrittenMax();

  /// FileSystem::NewRandomFile, of a file that keeps its name while *file is there: a read of *file
  /// may open it anew, and then says what that says. `files` outlives it. Throws std::bad_alloc.
  Status Open(FileSystem* files, const std::string& path, ReadVia via,
              std::unique_ptr<RandomFile>* file);
  /// How many are open.
  size_t open_count() const;

 private:
  class File;

  size_t FilesMax() const;
  /// The file is open, as `*made`, or as another reader of it made it, which then comes to *made.
  /// Others may be closed for it. Throws std::bad_alloc, and then it is as before.
  void NoteOpened(const File* file, std::shared_ptr<const RandomFile>* made) LAMELLA_EXCLUDES(mu_);
  void NoteGone(const File* file) LAMELLA_EXCLUDES(mu_);
  /// Another one, one that was not read of late. False: no other is open.
  bool CloseOne(const File* file) LAMELLA_EXCLUDES(mu_);
  void CloseNext(const File* file) LAMELLA_REQUIRES(mu_);
  /// REQUIRES: it is in open_.
  void TakeOut(const File* file) LAMELLA_REQUIRES(mu_);

  const size_t files_max_;
  mutable Mutex mu_;  // taken before a file's own
  std::vector<const File*> open_ LAMELLA_GUARDED_BY(mu_);
  size_t hand_ LAMELLA_GUARDED_BY(mu_) = 0;  // of the clock that goes over them
};

}  // namespace lamella

#endif  // LAMELLA_FILE_OPEN_FILES_H_
