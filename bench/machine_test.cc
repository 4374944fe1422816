#include "bench/machine.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "bench/crash.h"

namespace lamella::bench {
namespace {

// A process that says one line and waits to be ended; the line.
std::string StartAndHear(const std::function<void(int)>& say_and_wait, pid_t* started) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  *started = fork();
  if (*started == 0) {
    close(fds[0]);
    say_and_wait(fds[1]);
    _exit(1);
  }
  close(fds[1]);
  std::string line;
  for (char c = 0; read(fds[0], &c, 1) == 1 && c != '\n';) line += c;
  close(fds[0]);
  return line;
}

void Say(int fd, const std::string& line) {
  EXPECT_EQ(write(fd, (line + "\n").data(), line.size() + 1), ssize_t(line.size()) + 1);
}

void End(pid_t process, int signal) {
  EXPECT_EQ(kill(process, signal), 0);
  EXPECT_EQ(waitpid(process, nullptr, 0), process);
}

bool WithinSeconds(int seconds, const std::function<bool()>& happened) {
  for (int i = 0; i < seconds * 100 && !happened(); i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return happened();
}

// It may be gigabytes of memory.
TEST(ScratchDirectory, GoesWithItsProcessHoweverThatEnds) {
  ScratchDirectory ours;
  ASSERT_TRUE(ours.Create(testing::TempDir(), "machine_test").ok());
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    const std::string elsewhere = ours.path() + "/elsewhere";
    std::filesystem::create_directory(elsewhere);
    pid_t process = 0;
    const std::string path = StartAndHear(
        [&](int fd) {
          ScratchDirectory scratch;
          if (!scratch.Create(ours.path(), "scratch").ok()) return;
          std::ofstream(scratch.path() + "/file") << "something";
          std::filesystem::create_directory_symlink(elsewhere, scratch.path() + "/files");
          Say(fd, scratch.path());
          for (;;) pause();
        },
        &process);
    ASSERT_TRUE(std::filesystem::exists(path + "/file")) << path;
    End(process, signal);
    EXPECT_TRUE(WithinSeconds(30, [&] { return !std::filesystem::exists(path); })) << signal;
    EXPECT_FALSE(std::filesystem::exists(elsewhere)) << signal;
  }
  EXPECT_TRUE(std::filesystem::is_empty(ours.path()));
}

// One that waits to be killed by its parent would wait for ever.
TEST(RunInChild, AChildGoesWithItsParent) {
  pid_t parent = 0;
  const std::string child = StartAndHear(
      [](int fd) {
        std::string said;
        (void)RunInChild(
            true,
            [fd]() -> std::string {
              Say(fd, std::to_string(getpid()));
              for (;;) pause();
            },
            &said);
      },
      &parent);
  ASSERT_FALSE(child.empty());
  const auto runs = [&] {  // whoever inherits it may not have asked for how it ended
    std::ifstream stat("/proc/" + child + "/stat");
    const std::string text((std::istreambuf_iterator<char>(stat)), {});
    return !text.empty() && text.find(") Z ") == std::string::npos;
  };
  EXPECT_TRUE(runs());
  End(parent, SIGKILL);
  EXPECT_TRUE(WithinSeconds(30, [&] { return !runs(); }));
  if (runs()) kill(std::stoi(child), SIGKILL);
}

}  // namespace
}  // namespace lamella::bench
