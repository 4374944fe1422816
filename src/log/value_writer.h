// ValueWriter writes values one after the other into value files of its own, past the pool: those
// that were logged inline and are flushed. Their addresses are known at once, and lead to them from
// Finish on.
// I1: the files and their names are durable once Finish answered OK, and only then is anything
//     known of them. After a call failed every later one answers with the same error and does
//     nothing, and the files are removed; the same where the writer goes without a Finish.
// Contract: nothing throws: without memory a call answers IOError.
// Threads: one at a time.
#ifndef LAMELLA_LOG_VALUE_WRITER_H_
#define LAMELLA_LOG_VALUE_WRITER_H_

#include <cstdint>
#include <string_view>

#include "lamella/status.h"
#include "log/value_address.h"

namespace lamella {

class ValueWriter {
 public:
  ValueWriter() = default;
  ValueWriter(const ValueWriter&) = delete;
  ValueWriter& operator=(const ValueWriter&) = delete;
  virtual ~ValueWriter() = default;

  /// Of any size up to 1 GiB. NoSpace, IOError.
  virtual Status Add(std::string_view value, ValueAddress* address) = 0;
  /// Makes all of it durable, and known to the log. OK, and no file, where nothing was added.
  virtual Status Finish() = 0;
  /// What was added so far takes so much in files.
  virtual uint64_t bytes() const = 0;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_WRITER_H_
