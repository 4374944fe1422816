// FileSystem is the operating system's directories, small files and files of tables, as an
// interface: tests put a faulty one in its place. The pool's files are not here (pmem/region.h).
// Contract: OK of a call that changes something means that the change survives a power cut, where
// it says "durable". Codes of every call: NotFound (no such path), NoSpace, IOError; each message
// names the call and the path.
// Threads: any.
#ifndef LAMELLA_FILE_FILE_SYSTEM_H_
#define LAMELLA_FILE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "file/block_file.h"
#include "lamella/status.h"

namespace lamella {

class OsHook;

/// Held while a store is open; letting go of it unlocks. The file stays.
class FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  /// The operating system's own; lives as long as the process.
  static FileSystem* Posix();
  /// The same beneath a hook, for tests. The hook outlives it and the files that it opened.
  static std::unique_ptr<FileSystem> PosixOver(OsHook* os);

  /// True if there is a file or directory of that name.
  virtual bool Exists(const std::string& path) = 0;
  /// Makes the directory and those above it that are missing, durable. OK where it is;
  /// InvalidArgument where a file is.
  virtual Status CreateDirectory(const std::string& path) = 0;
  /// Removes an empty directory, durable. OK where there is none; InvalidArgument when it holds
  /// something.
  virtual Status RemoveDirectory(const std::string& path) = 0;
  /// The names in a directory, sorted, without "." and "..".
  virtual Status ListDirectory(const std::string& path, std::vector<std::string>* names) = 0;
  /// Makes what was created, renamed or removed in the directory durable.
  virtual Status SyncDirectory(const std::string& path) = 0;

  /// Bytes of a file.
  virtual Status FileSize(const std::string& path, uint64_t* bytes) = 0;
  /// Removes a file, durable. OK where there is none.
  virtual Status RemoveFile(const std::string& path) = 0;
  /// Renames a file, durable; replaces what is at `to`. Both are in one directory.
  virtual Status RenameFile(const std::string& from, const std::string& to) = 0;
  /// All of a small file.
  virtual Status ReadFile(const std::string& path, std::string* content) = 0;
  /// Sets a small file's content, durable: at any moment, and after a crash, it is the old content
  /// or the new one, whole.
  virtual Status WriteFile(const std::string& path, std::string_view content) = 0;

  /// Makes a file to append to, or empties the one that is there; neither is durable before Sync
  /// and SyncDirectory. REQUIRES: until it is let go of, the file keeps its name, and no other
  /// AppendFile has that name.
  virtual Status NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) = 0;
  /// Opens a file that does not change any more. NotSupported where its file system knows no
  /// reading past the page cache and that is asked for.
  virtual Status NewRandomFile(const std::string& path, ReadVia via,
                               std::unique_ptr<RandomFile>* file) = 0;
  Status NewRandomFile(const std::string& path, std::unique_ptr<RandomFile>* file) {
    return NewRandomFile(path, ReadVia::kPageCache, file);
  }

  /// Takes the lock file, making it if need be. Busy: another process has it, or this one does by
  /// another open, or it was just removed; the message names the holder where it is known. Remove
  /// the file while it is locked, if at all.
  virtual Status LockFile(const std::string& path, std::unique_ptr<FileLock>* lock) = 0;
};

}  // namespace lamella

#endif  // LAMELLA_FILE_FILE_SYSTEM_H_
