// CutFiles is the files of tables and values of a store whose power is cut: they lie in DRAM, and
// it knows what of them is durable. All other files, and directories, are the operating system's.
// The pool's are the Simulator's: a state that a crash leaves is one of each.
//
// What may be left of a power cut:
//   of a file what was synced, and of what was appended since a part, of which each sector (512
//   bytes) may be there or not
//   of a name that was made or removed since the directory was last synced either
// Of a kill: all names as they are, and of what was appended since the last sync the beginning.
//
// I1: whoever wants to know is asked before each change takes effect: append, sync, removal, and
//     sync of the directory.
// Threads: one.
#ifndef LAMELLA_TESTING_CUT_FILES_H_
#define LAMELLA_TESTING_CUT_FILES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "testing/file_system_over.h"

namespace lamella::testing {

class CutFiles final : public FileSystemOver {
 public:
  /// What a medium may be told to forget: a control of who relies on it.
  enum class Forgets : uint8_t { kNothing, kSyncs, kDirectorySyncs };

  /// Tables and values of this directory.
  explicit CutFiles(std::string directory)
      : FileSystemOver(FileSystem::Posix()), directory_(std::move(directory)) {}

  /// I1; null: nobody.
  void BeforeChange(std::function<void()> look) { look_ = std::move(look); }
  void Forget(Forgets what) { forgets_ = what; }
  /// `after` has what a crash now may leave: of a power cut all of it durable.
  void Crash(bool killed, Random* random, CutFiles* after) const;
  /// Has what `other` has, all of it durable.
  void TakeOver(const CutFiles& other);

  bool Exists(const std::string& path) override {
    return Find(path) != nullptr || FileSystemOver::Exists(path);
  }
  Status ListDirectory(const std::string& path, std::vector<std::string>* names) override;
  Status SyncDirectory(const std::string& path) override;
  Status FileSize(const std::string& path, uint64_t* bytes) override;
  Status RemoveFile(const std::string& path) override;
  using FileSystem::NewRandomFile;
  Status NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) override;
  Status NewRandomFile(const std::string& path, ReadVia via,
                       std::unique_ptr<RandomFile>* file) override;

 private:
  friend class CutAppendFile;

  struct Content {
    std::string bytes;
    size_t synced = 0;
  };
  using ContentPtr = std::shared_ptr<Content>;
  using Names = std::map<std::string, ContentPtr>;  // of tables, without the directory

  bool IsTable(const std::string& path, std::string* name) const;
  ContentPtr Find(const std::string& path) const;
  void Look() const {
    if (look_) look_();
  }
  static ContentPtr LeftOf(const Content& content, Random* random);

  const std::string directory_;
  std::function<void()> look_;
  Forgets forgets_ = Forgets::kNothing;
  Names names_;
  Names durable_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_CUT_FILES_H_
