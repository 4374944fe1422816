// ErrnoStatus turns an error number of the operating system into a Status, the same way everywhere.
#ifndef LAMELLA_BASE_ERRNO_STATUS_H_
#define LAMELLA_BASE_ERRNO_STATUS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "lamella/status.h"

namespace lamella {

/// "No such file or directory (errno 2)".
std::string ErrnoText(int error);

/// `what` names the call and the path, as in "open /data/pool.0". ENOENT gives NotFound; ENOSPC,
/// EDQUOT and EFBIG give NoSpace with what to do; the rest IOError, EMFILE with the limit.
Status ErrnoStatus(std::string_view what, int error);

/// The bytes a file of this process may have (RLIMIT_FSIZE); UINT64_MAX: any number.
uint64_t FileSizeLimit();

/// NoSpace where this process may not make the file at `path` so long (RLIMIT_FSIZE): if it tried,
/// a signal would end it.
Status CheckFileSizeLimit(std::string_view path, uint64_t bytes);

}  // namespace lamella

#endif  // LAMELLA_BASE_ERRNO_STATUS_H_
