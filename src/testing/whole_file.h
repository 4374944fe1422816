// The bytes of a file, as a test looks at them or leaves them.
#ifndef LAMELLA_TESTING_WHOLE_FILE_H_
#define LAMELLA_TESTING_WHOLE_FILE_H_

#include <string>
#include <string_view>

namespace lamella::testing {

/// Empty where the file cannot be read.
std::string ReadWhole(const std::string& path);
/// In place of what the file had, if it was there.
void WriteWhole(const std::string& path, std::string_view bytes);

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_WHOLE_FILE_H_
