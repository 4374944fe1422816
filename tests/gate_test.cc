// Holds the persistence gate closed: no object outside src/pmem has a cache-line flush, a store
// fence, a non-temporal store, a call into libpmem2 or an msync. It looks at what the compiler
// made, so no macro, intrinsic or inline assembly slips by.
#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tree.h"

namespace lamella {
namespace {

namespace fs = std::filesystem;

struct Archive {
  std::string folder;
  fs::path path;
};

/// The folders' archives, from "pool=/path/a,log=/path/b".
std::vector<Archive> Archives() {
  std::vector<Archive> archives;
  std::istringstream list(LAMELLA_FOLDER_ARCHIVES);
  for (std::string item; std::getline(list, item, ',');) {
    const size_t equals = item.find('=');
    archives.push_back({item.substr(0, equals), item.substr(equals + 1)});
  }
  return archives;
}

// mfence, dmb and locked instructions are not among them: compilers use them for atomics.
#if defined(__aarch64__)
constexpr char kForbiddenPattern[] = R"((dc\s+c\w+|dsb|stnp|sys)\b)";
constexpr std::array kForbiddenParts = {"dc\t", "dsb", "stnp", "sys"};
#else
constexpr char kForbiddenPattern[] =
    R"((clwb|clflush(opt)?|sfence|pcommit|maskmov(q|dqu)|v?movnt(?!dqa\b)\w*)\b)";
constexpr std::array kForbiddenParts = {"cl", "fence", "mov", "pcommit"};
#endif

/// Every forbidden instruction in an object or archive, with the function it is in.
std::vector<std::string> GateInstructions(const fs::path& object) {
  static const std::regex kFunction(R"(^[0-9a-f]+ <(.*)>:$)");
  static const std::regex kForbidden(std::string(R"(^\s*[0-9a-f]+:\s+)") + kForbiddenPattern);
  const CommandOutcome dump = RunCommand(std::string(LAMELLA_OBJDUMP) +
                                         " -d --no-show-raw-insn -C '" + object.string() + "'");
  EXPECT_EQ(dump.exit_status, 0) << object;
  EXPECT_FALSE(dump.output_lines.empty()) << object;
  std::vector<std::string> found;
  std::string function;
  for (const std::string& line : dump.output_lines) {
    // Matched by hand first: regular expressions over every line of a disassembly take minutes.
    if (line.ends_with(">:")) {
      std::smatch match;
      if (std::regex_match(line, match, kFunction)) function = match[1];
      continue;
    }
    const auto in_line = [&line](const char* part) { return line.find(part) != std::string::npos; };
    if (std::ranges::none_of(kForbiddenParts, in_line)) continue;
    std::smatch match;
    if (std::regex_search(line, match, kForbidden))
      found.push_back(match[1].str() + " in " + function);
  }
  return found;
}

/// Every symbol of libpmem2, libpmem or msync that an object or archive refers to.
std::vector<std::string> GateSymbols(const fs::path& object) {
  static const std::regex kForbidden(R"((^|\s)(pmem2?_\w+|msync)(@\S+)?(\s|$))");
  const CommandOutcome symbols = RunCommand(std::string(LAMELLA_NM) + " -u --format=posix '" +
                                            object.string() + "' 2>/dev/null");
  EXPECT_EQ(symbols.exit_status, 0) << object;
  std::vector<std::string> found;
  for (const std::string& line : symbols.output_lines) {
    std::smatch match;
    if (std::regex_search(line, match, kForbidden)) found.push_back(match[2].str());
  }
  return found;
}

/// Compiles one function of C++ as the tree is compiled, and returns the object.
fs::path Compiled(const ScratchTree& tree, const std::string& name, const std::string& source) {
  tree.Write(name + ".cc", source);
  const fs::path object = tree.path() / (name + ".o");
  const CommandOutcome compiler =
      RunCommand(std::string(LAMELLA_CXX) + " -std=c++20 -O1 -c '" +
                 (tree.path() / (name + ".cc")).string() + "' -o '" + object.string() + "' 2>&1");
  EXPECT_EQ(compiler.exit_status, 0) << Joined(compiler.output_lines);
  return object;
}

TEST(Gate, OnlyPmemFlushesAndFences) {
  for (const Archive& archive : Archives()) {
    if (archive.folder == "pmem") continue;
    const std::vector<std::string> found = GateInstructions(archive.path);
    EXPECT_TRUE(found.empty()) << "src/" << archive.folder << " persists behind the gate's back:\n"
                               << Joined(found);
  }
}

TEST(Gate, OnlyPmemCallsLibpmem2AndMsync) {
  for (const Archive& archive : Archives()) {
    if (archive.folder == "pmem") continue;
    const std::vector<std::string> found = GateSymbols(archive.path);
    EXPECT_TRUE(found.empty()) << "src/" << archive.folder << " persists behind the gate's back:\n"
                               << Joined(found);
  }
}

// The check sees what it looks for where it must be.
TEST(Gate, PmemItselfIsSeenToFlush) {
  bool seen = false;
  for (const Archive& archive : Archives()) {
    if (archive.folder != "pmem") continue;
    seen = true;
    EXPECT_FALSE(GateInstructions(archive.path).empty() && GateSymbols(archive.path).empty())
        << archive.path;
  }
  EXPECT_TRUE(seen) << "src/pmem has no archive: the list of folders is wrong";
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(Gate, EachForbiddenInstructionIsFound) {
#if defined(__aarch64__)
  const std::string header;
  const std::vector<std::pair<std::string, std::string>> forbidden = {
      {"dc\tcvac", "asm volatile(\"dc cvac, %0\" ::\"r\"(p) : \"memory\");"},
      {"dc\tcivac", "asm volatile(\"dc civac, %0\" ::\"r\"(p) : \"memory\");"},
      {"dc\tcvap", "asm volatile(\"sys #3, c7, c12, #1, %0\" ::\"r\"(p) : \"memory\");"},
      {"dsb", "asm volatile(\"dsb sy\" ::: \"memory\");"},
      {"stnp", "asm volatile(\"stnp xzr, xzr, [%0]\" ::\"r\"(p) : \"memory\");"},
  };
#else
  const std::string header = "#include <immintrin.h>\n";
  const std::vector<std::pair<std::string, std::string>> forbidden = {
      {"clwb", "asm volatile(\"clwb (%0)\" ::\"r\"(p) : \"memory\");"},
      {"clflush", "asm volatile(\"clflush (%0)\" ::\"r\"(p) : \"memory\");"},
      {"clflushopt", "asm volatile(\"clflushopt (%0)\" ::\"r\"(p) : \"memory\");"},
      {"sfence", "_mm_sfence();"},
      {"movnti", "_mm_stream_si64(p, 7);"},
      {"movntdq", "_mm_stream_si128(reinterpret_cast<__m128i*>(p), _mm_set1_epi64x(7));"},
      {"movntps", "_mm_stream_ps(reinterpret_cast<float*>(p), _mm_set1_ps(7));"},
  };
#endif
  const ScratchTree tree;
  for (const auto& [name, statement] : forbidden) {
    const std::string file = name.substr(name.find('\t') + 1);
    const fs::path object = Compiled(
        tree, file,
        header + "void Persist(long long* p) { " + statement + " if (!p) __builtin_trap(); }\n");
    const std::vector<std::string> found = GateInstructions(object);
    ASSERT_EQ(found.size(), 1u) << name << "\n" << Joined(found);
    EXPECT_EQ(found[0], name + " in Persist(long long*)");
  }
}
#endif

TEST(Gate, EachForbiddenCallIsFound) {
  const ScratchTree tree;
  for (const std::string name : {"pmem2_map_new", "pmem_persist", "msync"}) {
    const fs::path object = Compiled(
        tree, name,
        "extern \"C\" int " + name + "(void*); int Persist(void* p) { return " + name + "(p); }\n");
    EXPECT_EQ(GateSymbols(object), std::vector<std::string>{name});
  }
}

TEST(Gate, OrdinaryCodeIsClean) {
  const ScratchTree tree;
  const fs::path object =
      Compiled(tree, "sound",
               "#include <atomic>\n#include <cstring>\nstd::atomic<long> word;\n"
               "void Copy(char* d, const char* s) { std::memcpy(d, s, 64); word.store(1); "
               "std::atomic_thread_fence(std::memory_order_seq_cst); }\n");
  EXPECT_EQ(GateInstructions(object), std::vector<std::string>{});
  EXPECT_EQ(GateSymbols(object), std::vector<std::string>{});
}

}  // namespace
}  // namespace lamella
