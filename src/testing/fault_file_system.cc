#include "testing/fault_file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/concat.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPageBytes = 4096;
constexpr size_t kSectorBytes = 512;

std::string_view Piece(std::string_view content, uint64_t number, size_t bytes) {
  return number * bytes < content.size() ? content.substr(number * bytes, bytes)
                                         : std::string_view();
}

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

const char* OsCallName(OsCall call) {
  static constexpr const char* kNames[] = {"open",
                                           "create",
                                           "stat",
                                           "read",
                                           "write",
                                           "truncate",
                                           "allocate",
                                           "reserve addresses",
                                           "map",
                                           "dirty",
                                           "fsync",
                                           "msync",
                                           "fsync of the directory",
                                           "rename",
                                           "remove",
                                           "mkdir",
                                           "rmdir",
                                           "list",
                                           "lock"};
  static_assert(std::size(kNames) == static_cast<size_t>(OsCall::kCount));
  return kNames[static_cast<size_t>(call)];
}

FaultFileSystem::FaultFileSystem(std::string root, bool power_cuts)
    : FileSystemOver(FileSystem::PosixOver(this)),
      root_(WithoutTrailingSlash(std::move(root))),
      power_cuts_(power_cuts) {
  const MutexLock lock(&mu_);
  if (power_cuts_) LearnAll();
}

FaultFileSystem::~FaultFileSystem() {
  const MutexLock lock(&mu_);
  Forget();
}

thread_local int FaultFileSystem::onlookers_ = 0;

void FaultFileSystem::Arm(const Fault& fault) {
  const MutexLock lock(&mu_);
  fault_ = fault;
  calls_ = faults_ = syncs_failed_ = 0;
  first_fault_.clear();
}

void FaultFileSystem::EndFaults() {
  const MutexLock lock(&mu_);
  fault_.nth = fault_.also_syncs = 0;
}

uint64_t FaultFileSystem::calls() const {
  const MutexLock lock(&mu_);
  return calls_;
}

uint64_t FaultFileSystem::faults() const {
  const MutexLock lock(&mu_);
  return faults_;
}

std::string FaultFileSystem::first_fault() const {
  const MutexLock lock(&mu_);
  return first_fault_;
}

uint64_t FaultFileSystem::seen(OsCall call) const {
  const MutexLock lock(&mu_);
  return seen_[static_cast<size_t>(call)];
}

bool FaultFileSystem::IsSync(OsCall call) {
  return call == OsCall::kSync || call == OsCall::kSyncMap || call == OsCall::kSyncDirectory;
}

int FaultFileSystem::Before(OsCall call, const std::string& path) {
  const MutexLock lock(&mu_);
  seen_[static_cast<size_t>(call)]++;
  bool fails = false;
  if (onlookers_ == 0 && fault_.nth != 0 && !(fault_.passes_syncs && IsSync(call)) &&
      (fault_.only == OsCall::kCount || fault_.only == call)) {
    calls_++;
    fails = calls_ == fault_.nth || (fault_.persistent && calls_ > fault_.nth);
  }
  if (onlookers_ == 0 && !fails && faults_ > 0 && IsSync(call) &&
      syncs_failed_ < fault_.also_syncs) {
    syncs_failed_++;
    fails = true;
  }
  if (fails && first_fault_.empty()) first_fault_ = Concat(OsCallName(call), " of ", path);
  if (fails) faults_++;
  if (power_cuts_ && (call == OsCall::kSync || call == OsCall::kSyncMap)) Synced(path, !fails);
  if (power_cuts_ && call == OsCall::kDirty && !fails) {
    ino_t inode = 0;
    if (File* file = Find(path, &inode)) file->dropped.clear();
  }
  if (power_cuts_ && call == OsCall::kSyncDirectory && !fails) DirectorySynced(path);
  return fails && !(fault_.pretends && IsSync(call)) ? fault_.error : 0;
}

size_t FaultFileSystem::Allowed(OsCall, size_t n) {
  return transfer_bytes_max_ == 0 ? n : std::min(n, transfer_bytes_max_);
}

// The pages of a file that was emptied are new ones, also where they get the bytes that a failed
// sync dropped.
Status FaultFileSystem::NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) {
  Status s = FileSystemOver::NewAppendFile(path, file);
  const MutexLock lock(&mu_);
  ino_t inode = 0;
  if (File* emptied = s.ok() && power_cuts_ ? Find(path, &inode) : nullptr)
    emptied->dropped.clear();
  return s;
}

// What the file holds now; until it changes.
std::string_view FaultFileSystem::Content(File* file) {
  struct stat info{};
  if (::fstat(file->fd, &info) != 0) std::abort();
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes > file->mapped) {
    if (file->map != nullptr) ::munmap(file->map, file->mapped);
    void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file->fd, 0);
    if (map == MAP_FAILED) std::abort();
    file->map = static_cast<char*>(map);
    file->mapped = bytes;
  }
  return {file->map, bytes};
}

void FaultFileSystem::Forget() {
  for (const auto& [inode, file] : files_) {
    if (file.map != nullptr) ::munmap(file.map, file.mapped);
    ::close(file.fd);
  }
  files_.clear();
}

// The file of that name; learnt, with nothing durable, where it is new. Null for what is no file.
FaultFileSystem::File* FaultFileSystem::Find(const std::string& path, ino_t* inode) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return nullptr;
  *inode = info.st_ino;
  File& file = files_[info.st_ino];
  if (file.fd < 0) file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd < 0 && errno == ENOENT) {  // it was just removed
    files_.erase(info.st_ino);
    return nullptr;
  }
  if (file.fd < 0) std::abort();
  return &file;
}

void FaultFileSystem::Synced(const std::string& path, bool ok) {
  ino_t inode = 0;
  File* file = Find(path, &inode);
  if (file == nullptr) return;
  const std::string_view now = Content(file);
  const uint64_t pages = (std::max(now.size(), file->durable.size()) + kPageBytes - 1) / kPageBytes;
  // What was cut off is not dirty any more.
  file->dropped.erase(file->dropped.lower_bound((now.size() + kPageBytes - 1) / kPageBytes),
                      file->dropped.end());
  if (ok) file->durable.resize(now.size(), '\0');
  for (uint64_t page = 0; page < pages; page++) {
    const std::string_view content = Piece(now, page, kPageBytes);
    if (content == Piece(file->durable, page, kPageBytes)) continue;
    const auto dropped = file->dropped.find(page);
    if (!ok) {
      file->dropped[page] = content;
    } else if (dropped == file->dropped.end() || dropped->second != content) {  // keeps I1
      file->durable.replace(page * kPageBytes, content.size(), content);
      file->dropped.erase(page);
    }
  }
}

void FaultFileSystem::DirectorySynced(const std::string& raw_path) {
  const std::string path = WithoutTrailingSlash(raw_path);
  if (path != root_ && !path.starts_with(root_ + "/")) return;
  const auto lies_in_it = [&](const std::string& name) {
    return name.rfind('/') == path.size() && name.starts_with(path);
  };
  std::erase_if(names_, [&](const auto& name) { return lies_in_it(name.first); });
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    ino_t inode = 0;
    const bool is_file = entry.is_regular_file();
    if (is_file && Find(entry.path(), &inode) == nullptr) continue;  // it was just removed
    names_[entry.path()] = inode;
  }
}

// I3.
void FaultFileSystem::LearnAll() {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
    ino_t inode = 0;
    if (File* file = entry.is_regular_file() ? Find(entry.path(), &inode) : nullptr)
      file->durable = Content(file);
    names_[entry.path()] = inode;
  }
}

void FaultFileSystem::PowerCut(Random* kept) {
  const MutexLock lock(&mu_);
  std::map<std::string, std::string> contents;  // of files that stay
  for (const auto& [path, inode] : names_) {
    if (inode == 0) continue;
    File& file = files_[inode];
    std::string content = file.durable;
    const std::string_view last = Content(&file);
    // A size that was not synced reaches the medium by itself, or does not.
    if (kept != nullptr && last.size() != content.size() && kept->OneIn(2))
      content.resize(last.size());
    for (uint64_t sector = 0; kept != nullptr && sector * kSectorBytes < content.size(); sector++) {
      std::string_view unsynced = Piece(last, sector, kSectorBytes);
      unsynced = unsynced.substr(0, content.size() - sector * kSectorBytes);
      if (unsynced != Piece(content, sector, kSectorBytes) && kept->OneIn(2)) {
        content.replace(sector * kSectorBytes, unsynced.size(), unsynced);
      }
    }
    contents[path] = std::move(content);
  }
  std::vector<std::string> directories;  // parents first
  for (const auto& [path, inode] : names_) {
    if (inode == 0) directories.push_back(path);
  }
  Forget();
  for (const fs::directory_entry& entry : fs::directory_iterator(root_))
    fs::remove_all(entry.path());
  // What lies in a directory whose own name was lost is lost with it.
  for (const std::string& path : directories) {
    if (fs::exists(fs::path(path).parent_path())) fs::create_directory(path);
  }
  for (const auto& [path, content] : contents) {
    if (!fs::exists(fs::path(path).parent_path())) continue;
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  names_.clear();
  LearnAll();
}

}  // namespace lamella::testing
