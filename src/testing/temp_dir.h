// A directory for one test, removed with all that is in it. Also a value of the environment for one
// scope.
#ifndef LAMELLA_TESTING_TEMP_DIR_H_
#define LAMELLA_TESTING_TEMP_DIR_H_

#include <optional>
#include <string>

namespace lamella::testing {

/// Made in $TMPDIR where that is set, else in /dev/shm where that can be written, else in the
/// system's temp directory. Aborts where none can be made. Kept, and named on stdout, where
/// LAMELLA_TEST_KEEP is set.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  /// path() + "/" + name; nothing is made.
  std::string Sub(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Sets an environment variable (nullopt: unsets it) and puts the old value back at the scope's
/// end.
/// Threads: not while another thread reads the environment.
class ScopedEnv {
 public:
  ScopedEnv(std::string name, const std::optional<std::string>& value);
  ~ScopedEnv();
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  void Set(const std::optional<std::string>& value);

  const std::string name_;
  std::optional<std::string> before_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TEMP_DIR_H_
