#include "base/errno_status.h"

#include <sys/resource.h>
#include <system_error>

#include <cerrno>

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

}  // namespace lamella
