#include "testing/temp_dir.h"

#include <system_error>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace lamella::testing {
namespace {

std::string Root() {
  const char* set = std::getenv("TMPDIR");
  if (set != nullptr && *set != '\0') return set;
  if (::access("/dev/shm", W_OK | X_OK) == 0) return "/dev/shm";
  std::error_code ignored;
  const std::string fallback = std::filesystem::temp_directory_path(ignored);
  return fallback.empty() ? "." : fallback;
}

}  // namespace

TempDir::TempDir() {
  std::string pattern = Root() + "/lamella_test.XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    std::fprintf(
        stderr,
        "cannot make a temporary directory like %s; point TMPDIR to one that can be written\n",
        pattern.c_str());
    std::abort();
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  if (std::getenv("LAMELLA_TEST_KEEP") != nullptr) {
    std::printf("kept %s\n", path_.c_str());
    return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ScopedEnv::ScopedEnv(std::string name, const std::optional<std::string>& value)
    : name_(std::move(name)) {
  const char* before = std::getenv(name_.c_str());
  if (before != nullptr) before_ = before;
  Set(value);
}

ScopedEnv::~ScopedEnv() { Set(before_); }

void ScopedEnv::Set(const std::optional<std::string>& value) {
  if (value) {
    ::setenv(name_.c_str(), value->c_str(), 1);
  } else {
    ::unsetenv(name_.c_str());
  }
}

}  // namespace lamella::testing
