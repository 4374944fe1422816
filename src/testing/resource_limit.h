// ResourceLimit is a limit of the process (setrlimit) for as long as it is there, however a test
// ends. Threads: one at a time; the limit is that of all.
#ifndef LAMELLA_TESTING_RESOURCE_LIMIT_H_
#define LAMELLA_TESTING_RESOURCE_LIMIT_H_

#include <sys/resource.h>

#include <gtest/gtest.h>

namespace lamella::testing {

class ResourceLimit {
 public:
  using Resource = decltype(RLIMIT_NOFILE);

  ResourceLimit(Resource resource, rlim_t soft) : resource_(resource) {
    EXPECT_EQ(getrlimit(resource_, &before_), 0);
    const rlimit limit{.rlim_cur = soft, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(resource_, &limit), 0);
  }
  ~ResourceLimit() { EXPECT_EQ(setrlimit(resource_, &before_), 0); }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;

 private:
  const Resource resource_;
  rlimit before_{};
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_RESOURCE_LIMIT_H_
