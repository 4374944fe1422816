#include "log/value_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/no_throw.h"
#include "log/value_format.h"
#include "log/value_log.h"

namespace lamella {
namespace {

constexpr size_t kWrittenValueBytesMax = size_t{1} << 30;

}  // namespace

// A file of its own, whose segments are drawn when it begins: more than it may use up. A value may
// lie in several of them.
class ValueLog::FilesWriter final : public ValueWriter {
 public:
  explicit FilesWriter(ValueLog* log) : log_(log) {}
  ~FilesWriter() override { Abandon(); }

  Status Add(std::string_view value, ValueAddress* address) override {
    if (value.size() > kWrittenValueBytesMax) {
      return NoThrow([&] {
        return Status::InvalidArgument(Concat("a value of ", value.size(), " bytes; up to ",
                                              kWrittenValueBytesMax, " are allowed"));
      });
    }
    return Run([&] { return AddValue(value, address); });
  }
  Status Finish() override {
    return Run([this] { return MakeDurable(); });
  }
  uint64_t bytes() const override {
    return finished_bytes_ + (appending_ == nullptr ? 0 : appending_->bytes());
  }

 private:
  uint64_t segment_bytes() const { return log_->options_.segment_bytes; }
  template <class Step>
  Status Run(const Step& step) {
    if (finished_) {
      return NoThrow([] { return Status::InvalidArgument("the values' writer has finished"); });
    }
    if (status_.ok()) {  // keeps I1
      status_ = NoThrow(step);
      if (!status_.ok()) Abandon();
    }
    return status_;
  }

  Status AddValue(std::string_view value, ValueAddress* address) {
    const uint64_t bytes = ValueBytes(value.size());
    Status s;
    if (appending_ != nullptr && appending_->bytes() + bytes > bytes_max_) s = EndFile();
    if (s.ok() && appending_ == nullptr) s = BeginFile(bytes);
    if (!s.ok()) return s;
    const uint64_t at = appending_->bytes();
    *address = MakeValueAddress(files_.back().file->id().first + at / segment_bytes(),
                                at % segment_bytes(), static_cast<uint32_t>(value.size()));
    const ValueHeader header = MakeValueHeader(log_->seed_, *address, value);
    static constexpr char kZeros[8] = {};
    s = appending_->Append({reinterpret_cast<const char*>(&header), sizeof(header)});
    if (s.ok()) s = appending_->Append(value);
    if (s.ok()) s = appending_->Append({kZeros, bytes - sizeof(header) - value.size()});
    return s;
  }

  Status BeginFile(uint64_t bytes) {
    const uint64_t segments = std::max<uint64_t>(log_->options_.file_segments,
                                                 (bytes + segment_bytes() - 1) / segment_bytes());
    ValueFileId id;
    Status s = log_->DrawSegments(segments, &id);
    if (!s.ok()) return s;
    files_.push_back({std::make_shared<ValueFile>(log_->options_.files, log_->options_.directory,
                                                  id, log_->options_.via),
                      0, 0});
    bytes_max_ = segments * segment_bytes();
    return log_->options_.files->NewAppendFile(files_.back().file->path(), &appending_);
  }

  Status EndFile() {
    Status s = appending_->Sync();
    if (!s.ok()) return s;
    KnownValueFile& known = files_.back();
    known.bytes = appending_->bytes();
    known.segments = (known.bytes + segment_bytes() - 1) / segment_bytes();
    finished_bytes_ += known.bytes;
    appending_.reset();
    return s;
  }

  // What a crash after each step leaves (ValueLogCrashModes):
  //   each file's sync       perhaps no name, of which nobody knows
  //   the directory's sync   all files; what is to name their values does not yet, and else whoever
  //                          removes what nobody needs finds them
  Status MakeDurable() {
    Status s = appending_ == nullptr ? Status::OK() : EndFile();
    if (s.ok() && !files_.empty())
      s = log_->options_.files->SyncDirectory(log_->options_.directory);
    for (const KnownValueFile& known : files_) {
      if (s.ok()) s = known.file->Open();
    }
    if (!s.ok()) return s;
    log_->directory_->AddFiles(files_);
    log_->bytes_written_.fetch_add(finished_bytes_, std::memory_order_relaxed);
    finished_ = true;
    return s;
  }

  void Abandon() {
    appending_.reset();
    if (finished_) return;
    for (const KnownValueFile& known : files_) known.file->MakeObsolete();
    files_.clear();
  }

  ValueLog* const log_;
  Status status_;
  bool finished_ = false;
  std::vector<KnownValueFile> files_;  // the last is being appended to, if any is
  std::unique_ptr<AppendFile> appending_;
  uint64_t bytes_max_ = 0;  // of that one
  uint64_t finished_bytes_ = 0;
};

std::unique_ptr<ValueWriter> ValueLog::NewWriter() { return std::make_unique<FilesWriter>(this); }

}  // namespace lamella
