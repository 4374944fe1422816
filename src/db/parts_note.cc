#include "db/parts_note.h"

#include <system_error>

#include <algorithm>
#include <filesystem>

#include "base/concat.h"

namespace lamella {
namespace {

std::string NotePath(const std::string& path) { return Concat(path, "/", kPartsNoteName); }

// The directories, one a line, in their order: empty where the pool lies beside it. By a name in
// them: of a directory itself what it is called depends on whether it is there ("/mnt/" or "/mnt").
std::string TextOf(const Options& options) {
  std::string text;
  for (const std::string& directory : options.pmem_paths) {
    std::error_code unknown;
    const auto in_it = std::filesystem::absolute(directory, unknown) / "none";
    auto place = std::filesystem::weakly_canonical(in_it, unknown);
    if (unknown) place = in_it.lexically_normal();
    text += place.parent_path().string() + "\n";
  }
  return text;
}

}  // namespace

void KeepPartsNote(FileSystem* files, const std::string& path, const Options& options) {
  const std::string note = NotePath(path);
  const std::string text = TextOf(options);
  const bool is_there = files->Exists(note);
  if (text.empty()) {
    if (is_there) (void)files->RemoveFile(note).ok();
    return;
  }
  std::string found;
  if (is_there && files->ReadFile(note, &found).ok() && found == text) return;
  (void)files->WriteFile(note, text).ok();
}

Status CheckPartsNote(FileSystem* files, const std::string& path, const Options& options) {
  const std::string note = NotePath(path);
  if (!files->Exists(note)) return Status::OK();
  std::string found;
  Status s = files->ReadFile(note, &found);
  if (!s.ok()) return s;
  if (found.empty() || found == TextOf(options)) return Status::OK();
  found.pop_back();
  std::ranges::replace(found, '\n', ' ');
  return Status::InvalidArgument(Concat(
      "pmem_paths: expected the directories of the pool of ", path, ", by ", note, " ", found,
      ", found ", options.pmem_paths.empty() ? "none named" : "others named, and no pool there",
      "; name them, in this order (--pmem). If the pool lies elsewhere now, name that "
      "place; if it is gone for good, remove ",
      note));
}

// The other one is what is left of a WriteFile that was cut short.
Status RemovePartsNote(FileSystem* files, const std::string& path) {
  Status s = files->RemoveFile(NotePath(path) + ".new");
  return s.ok() ? files->RemoveFile(NotePath(path)) : s;
}

}  // namespace lamella
