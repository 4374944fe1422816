#include "base/errno_status.h"

#include <sys/resource.h>
#include <system_error>

#include <cerrno>
#include <limits>

#include "base/concat.h"

namespace lamella {

std::string ErrnoText(int error) {
  return Concat(std::generic_category().message(error), " (errno ", error, ")");
}

Status ErrnoStatus(std::string_view what, int error) {
  const std::string message = Concat(what, ": ", ErrnoText(error));
  switch (error) {
    case ENOENT:
      return Status::NotFound(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Status::NoSpace(
          message + "; free space on that file system, or raise its quota or the file size limit");
    case EACCES:
    case EPERM:
    case EROFS:
      return Status::IOError(message + "; the directory must be writable for this user");
    case EMFILE: {
      rlimit files{};
      (void)getrlimit(RLIMIT_NOFILE, &files);
      return Status::IOError(Concat(message, "; this process may have ", files.rlim_cur,
                                    " files open: raise that limit (ulimit -n, RLIMIT_NOFILE)"));
    }
    case ENFILE:
      return Status::IOError(message + "; raise the system's limit (fs.file-max)");
    default:
      return Status::IOError(message);
  }
}

uint64_t FileSizeLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<uint64_t>::max();
  return limit.rlim_cur;
}

Status CheckFileSizeLimit(std::string_view path, uint64_t bytes) {
  const uint64_t limit = FileSizeLimit();
  if (bytes <= limit) return Status::OK();
  return Status::NoSpace(Concat(path, " wants to be ", bytes,
                                " bytes, and this process may write files of at most ", limit,
                                "; raise the limit (ulimit -f)"));
}

}  // namespace lamella
