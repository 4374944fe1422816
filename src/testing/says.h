// Says asks what a Status tells its reader.
#ifndef LAMELLA_TESTING_SAYS_H_
#define LAMELLA_TESTING_SAYS_H_

#include <string_view>

#include "lamella/status.h"

namespace lamella::testing {

inline bool Says(const Status& s, std::string_view text) {
  return s.message().find(text) != std::string_view::npos;
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_SAYS_H_
