#include "testing/cut_files.h"

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "file/table_file_name.h"

namespace lamella::testing {

namespace {

constexpr size_t kSectorBytes = 512;

class CutRandomFile final : public RandomFile {
 public:
  CutRandomFile(std::string path, std::shared_ptr<const std::string> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}
  Status Read(uint64_t offset, size_t n, char* to) const override {
    if (offset + n > bytes_->size()) {
      return Status::Corruption(
          Concat(path_, ": ", n, " bytes at ", offset, " of ", bytes_->size()));
    }
    std::memcpy(to, bytes_->data() + offset, n);
    return Status::OK();
  }
  uint64_t bytes() const override { return bytes_->size(); }

 private:
  const std::string path_;
  const std::shared_ptr<const std::string> bytes_;
};

}  // namespace

class CutAppendFile final : public AppendFile {
 public:
  CutAppendFile(const CutFiles* files, CutFiles::ContentPtr content)
      : files_(files), content_(std::move(content)) {}
  Status Append(std::string_view bytes) override {
    files_->Look();
    content_->bytes.append(bytes);
    return Status::OK();
  }
  Status Sync() override {
    files_->Look();
    if (files_->forgets_ != CutFiles::Forgets::kSyncs) content_->synced = content_->bytes.size();
    return Status::OK();
  }
  uint64_t bytes() const override { return content_->bytes.size(); }

 private:
  const CutFiles* const files_;
  const CutFiles::ContentPtr content_;
};

bool CutFiles::IsTable(const std::string& path, std::string* name) const {
  if (path.size() <= directory_.size() || path.compare(0, directory_.size(), directory_) != 0)
    return false;
  *name = path.substr(directory_.size() + 1);
  return IsDataFileName(*name);
}

CutFiles::ContentPtr CutFiles::Find(const std::string& path) const {
  std::string name;
  if (!IsTable(path, &name)) return nullptr;
  const auto at = names_.find(name);
  return at == names_.end() ? nullptr : at->second;
}

// Of a power cut.
CutFiles::ContentPtr CutFiles::LeftOf(const Content& content, Random* random) {
  const auto left = std::make_shared<Content>();
  const size_t more = content.bytes.size() - content.synced;
  const size_t size = content.synced + (more == 0 ? 0 : random->Uniform(more + 1));
  left->bytes = content.bytes.substr(0, content.synced);
  left->bytes.resize(size, '\0');
  for (size_t at = content.synced; at < size;) {
    const size_t end = std::min(size, (at / kSectorBytes + 1) * kSectorBytes);
    if (random->OneIn(2)) std::memcpy(&left->bytes[at], &content.bytes[at], end - at);
    at = end;
  }
  left->synced = size;
  return left;
}

void CutFiles::Crash(bool killed, Random* random, CutFiles* after) const {
  after->names_.clear();
  after->durable_.clear();
  if (!killed) {
    const auto keep = [&](const Names& from, const Names& other) {
      for (const auto& [name, content] : from) {
        const auto in_other = other.find(name);
        const bool certain = in_other != other.end() && in_other->second == content;
        if (certain || random->OneIn(2)) after->names_[name] = LeftOf(*content, random);
      }
    };
    keep(durable_, names_);
    keep(names_, durable_);
    after->durable_ = after->names_;
    return;
  }
  std::map<const Content*, ContentPtr> copies;
  const auto copy = [&](const ContentPtr& content) {
    ContentPtr& made = copies[content.get()];
    if (made != nullptr) return made;
    made = std::make_shared<Content>(*content);
    const size_t more = made->bytes.size() - made->synced;
    if (more != 0) made->bytes.resize(made->synced + random->Uniform(more + 1));
    return made;
  };
  for (const auto& [name, content] : names_) after->names_[name] = copy(content);
  for (const auto& [name, content] : durable_) after->durable_[name] = copy(content);
}

void CutFiles::TakeOver(const CutFiles& other) {
  names_.clear();
  for (const auto& [name, content] : other.names_) {
    names_[name] = std::make_shared<Content>(*content);
    names_[name]->synced = content->bytes.size();
  }
  durable_ = names_;
}

Status CutFiles::ListDirectory(const std::string& path, std::vector<std::string>* names) {
  Status s = FileSystemOver::ListDirectory(path, names);
  if (path != directory_) return s;
  for (const auto& [name, content] : names_) names->push_back(name);
  std::ranges::sort(*names);
  return s;
}

Status CutFiles::SyncDirectory(const std::string& path) {
  if (path != directory_) return FileSystemOver::SyncDirectory(path);
  Look();
  if (forgets_ != Forgets::kDirectorySyncs) durable_ = names_;
  return Status::OK();
}

Status CutFiles::FileSize(const std::string& path, uint64_t* bytes) {
  const ContentPtr content = Find(path);
  if (content == nullptr) return FileSystemOver::FileSize(path, bytes);
  *bytes = content->bytes.size();
  return Status::OK();
}

Status CutFiles::RemoveFile(const std::string& path) {
  std::string name;
  if (!IsTable(path, &name)) return FileSystemOver::RemoveFile(path);
  Look();
  names_.erase(name);
  return SyncDirectory(directory_);
}

Status CutFiles::NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) {
  std::string name;
  if (!IsTable(path, &name)) return FileSystemOver::NewAppendFile(path, file);
  Look();
  const auto content = std::make_shared<Content>();
  names_[name] = content;
  *file = std::make_unique<CutAppendFile>(this, content);
  return Status::OK();
}

Status CutFiles::NewRandomFile(const std::string& path, ReadVia via,
                               std::unique_ptr<RandomFile>* file) {
  std::string name;
  if (!IsTable(path, &name)) return FileSystemOver::NewRandomFile(path, via, file);
  const ContentPtr content = Find(path);
  if (content == nullptr) return Status::NotFound(Concat(path, ": no such file"));
  *file = std::make_unique<CutRandomFile>(
      path, std::shared_ptr<const std::string>(content, &content->bytes));
  return Status::OK();
}

}  // namespace lamella::testing
