#include "memtable/key_prefixes.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

using Head = KeyPrefixes::Head;
using HeadFunction = std::function<Head(std::string_view)>;

std::string Digits(uint64_t n, size_t width) {
  std::string digits = std::to_string(n);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

// Shapes of keys that share beginnings, in ways that differ.
std::string UserKey(Random* random) { return "user" + Digits(random->Uniform(3'000'000), 20); }
std::string UrlKey(Random* random) {
  static const char* kHosts[] = {"a.example", "archive.example", "b.example", "www.example"};
  const std::string folder(random->Uniform(3) * 7, 'd');
  return std::string("https://") + kHosts[random->Uniform(4)] + "/" + folder + "/" +
         Digits(random->Uniform(200'000), 8) + ".html";
}
std::string PathKey(Random* random) {
  std::string path;
  for (uint64_t i = 0; i < 6; i++) path += "/folder-" + std::to_string(random->Uniform(3));
  return path + "/" + std::to_string(random->Uniform(100));
}
std::string NestedKey(Random* random) { return std::string(random->Uniform(60), 'a'); }
std::string BinaryKey(Random* random) {
  std::string key(random->Uniform(40), '\0');
  for (char& c : key) c = "\0\1\xfe\xff"[random->Uniform(4)];
  return key;
}
using Shape = std::string (*)(Random*);
constexpr std::pair<const char*, Shape> kShapes[] = {{"user", UserKey},
                                                     {"url", UrlKey},
                                                     {"path", PathKey},
                                                     {"nested", NestedKey},
                                                     {"binary", BinaryKey}};

std::vector<std::string> Sample(Shape shape, size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<std::string> keys(count);
  for (std::string& key : keys) key = shape(&random);
  std::sort(keys.begin(), keys.end());
  return keys;
}

// "" where the two keep K1 and K2.
std::string Broken(const HeadFunction& head_of, const std::string& a, const std::string& b) {
  const Head x = head_of(a);
  const Head y = head_of(b);
  const auto order = std::pair(x.high, x.low) <=> std::pair(y.high, y.low);
  if (order != 0) {
    return (order < 0) == (a < b) && a != b ? "" : "the heads order otherwise";
  }
  if (std::min(x.size, KeyPrefixes::kHeadBytes + size_t{1}) !=
      std::min(y.size, KeyPrefixes::kHeadBytes + size_t{1})) {
    return (x.size < y.size) == (a < b) ? "" : "the sizes order otherwise";
  }
  if (x.size <= KeyPrefixes::kHeadBytes) return a == b ? "" : "taken for the same key";
  if (x.covered != y.covered || a.compare(0, x.covered, b, 0, y.covered) != 0)
    return "they differ in what is covered";
  return "";
}

std::string FirstBroken(const HeadFunction& head_of, const std::vector<std::string>& keys,
                        uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < 20'000; i++) {
    const size_t at = random.Uniform(keys.size());
    const size_t other = random.OneIn(2) ? random.Uniform(keys.size())
                                         : std::min(at + random.Uniform(4), keys.size() - 1);
    const std::string problem = Broken(head_of, keys[at], keys[other]);
    if (!problem.empty()) return "\"" + keys[at] + "\" and \"" + keys[other] + "\": " + problem;
  }
  return "";
}

// Keys of every shape, and such as lie at the edges of the prefixes.
std::vector<std::string> AllKinds(const KeyPrefixes* prefixes, uint64_t seed) {
  std::vector<std::string> keys;
  for (const auto& [name, shape] : kShapes) {
    const auto some = Sample(shape, 400, seed);
    keys.insert(keys.end(), some.begin(), some.end());
  }
  if (prefixes != nullptr) {
    for (const std::string& prefix : prefixes->prefixes()) {
      keys.push_back(prefix);
      keys.push_back(prefix + std::string(1, '\0'));
      keys.push_back(prefix + std::string(20, '\xff'));
      keys.push_back(prefix.substr(0, prefix.size() - 1));
      keys.push_back(prefix);
      keys.back().back() = static_cast<char>(keys.back().back() + 1);
      keys.push_back(prefix);
      keys.back().back() = static_cast<char>(keys.back().back() - 1);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

TEST(KeyPrefixes, HeadsOrderAsKeysDo) {
  for (const auto& [name, shape] : kShapes) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
      const auto prefixes = KeyPrefixes::Learn(Sample(shape, 4 + 40 * seed, seed));
      const auto head_of = [&](std::string_view key) {
        return KeyPrefixes::HeadOf(prefixes.get(), key);
      };
      EXPECT_EQ(FirstBroken(head_of, AllKinds(prefixes.get(), seed), seed), "")
          << name << " seed " << seed;
    }
  }
}

// Negative control: heads that leave out what only some keys share.
TEST(KeyPrefixes, HeadsThatDoNotAreFound) {
  const auto head_of = [](std::string_view key) {
    return KeyPrefixes::HeadOf(nullptr, key.substr(std::min<size_t>(5, key.size())));
  };
  EXPECT_NE(FirstBroken(head_of, AllKinds(nullptr, 1), 1), "");
}

// Of keys as close together as a table's, not as a sample's.
size_t HeadsOf(const KeyPrefixes* prefixes, const std::set<std::string>& keys) {
  std::set<std::pair<uint64_t, uint64_t>> heads;
  for (const std::string& key : keys) {
    const Head head = KeyPrefixes::HeadOf(prefixes, key);
    heads.emplace(head.high, head.low);
  }
  return heads.size();
}

TEST(KeyPrefixes, TellKeysApart) {
  for (const auto& [name, shape] : {kShapes[0], kShapes[1]}) {
    const auto prefixes = KeyPrefixes::Learn(Sample(shape, 512, 3));
    ASSERT_NE(prefixes, nullptr) << name;
    const auto keys = Sample(shape, 100'000, 4);
    const std::set<std::string> all(keys.begin(), keys.end());
    EXPECT_LT(HeadsOf(nullptr, all), all.size() / 50) << name;
    EXPECT_EQ(HeadsOf(prefixes.get(), all), all.size()) << name;
  }
}

TEST(KeyPrefixes, ServeKeysThatRiseBeyondTheSample) {
  std::vector<std::string> sample;
  for (uint64_t i = 0; i < 512; i++) sample.push_back("queue-" + Digits(10'000 + 40 * i, 20));
  const auto prefixes = KeyPrefixes::Learn(sample);
  ASSERT_NE(prefixes, nullptr);
  std::set<std::string> later;
  for (uint64_t i = 0; i < 10'000; i++) later.insert("queue-" + Digits(90'000'000 + i, 20));
  EXPECT_EQ(HeadsOf(prefixes.get(), later), later.size());
}

TEST(KeyPrefixes, AreNotMadeWhereTheFirstBytesDo) {
  std::vector<std::string> sample;
  for (uint64_t i = 0; i < 512; i++) sample.push_back(Digits(i * 7919, 16));
  EXPECT_EQ(KeyPrefixes::Learn(sample), nullptr);  // a head is all of such a key
  sample.clear();
  for (uint64_t i = 0; i < 512; i++) sample.push_back(std::to_string(100'000 + i) + "and more");
  EXPECT_EQ(KeyPrefixes::Learn(sample), nullptr);
  EXPECT_EQ(KeyPrefixes::Learn({}), nullptr);
  EXPECT_EQ(KeyPrefixes::Learn({"one", "one", "one", "one", "one"}), nullptr);
}

}  // namespace
}  // namespace lamella
