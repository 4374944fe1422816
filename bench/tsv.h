// Lines of key, tab, value, as the `lamella` program's load reads them: \t \n \r \\ \0 and \xHH
// stand for bytes that a line cannot hold.
#ifndef LAMELLA_BENCH_TSV_H_
#define LAMELLA_BENCH_TSV_H_

#include <string>
#include <string_view>
#include <vector>

#include "lamella/status.h"

namespace lamella::bench {

struct TsvRecord {
  std::string key;
  std::string value;
};

/// InvalidArgument: the line has no tab or two, an empty key or one above 65,535 bytes, or an
/// escape that is none; the message says which.
Status ParseTsvLine(std::string_view line, TsvRecord* record);
/// Reads all records; empty lines are passed over. InvalidArgument names the line by number;
/// IOError: it cannot be read.
Status ReadTsvFile(const std::string& path, std::vector<TsvRecord>* records);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_TSV_H_
