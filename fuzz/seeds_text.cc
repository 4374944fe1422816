// The seeds of what people write: records as text, options of the tools and of the benchmark.
#include <string>

#include "fuzz/seeds.h"

namespace lamella::fuzz {

void MakeImport(const std::filesystem::path& root) {
  Corpus corpus(root, "import");
  const std::string tsv(1, '\0');
  const std::string json(1, '\1');
  corpus.Add("tsv-plain", tsv + "key\tvalue\nother\t\nlast\tno end");
  corpus.Add("tsv-escapes", tsv + "a\\tb\\n\\r\\\\\\0\\x7f\\xFF\tv\\x00\n");
  corpus.Add("tsv-bad-escapes",
             tsv + "k\\q\tv\nk\\x1\tv\nk\\xzz\tv\nk\\\tv\nk\tv\\\nk\\x 1\tv\nk\\x+1\tv\n");
  corpus.Add("tsv-tabs", tsv + "no tab\n\tempty key\na\tb\tc\n\n\n");
  corpus.Add("tsv-binary", tsv + "k\xff\xfe\tv\x80\x01\r\n\xc3\xa9\t\xf0\x9f\x8c\x8a\n");
  corpus.Add(
      "json-plain",
      json + "{\"key\": \"k\", \"value\": \"v\"}\n{\"value\":\"\",\"key\":\"\\u00e9\\n\"}\n");
  corpus.Add("json-base64", json +
                                "{\"key_base64\":\"AP8=\",\"value_base64\":\"\"}\n{\"key_base64\":"
                                "\"AP9=\",\"value\":\"\"}");
  corpus.Add(
      "json-bad",
      json +
          "{\"key\":1,\"value\":null}\n[]\n{}\n\"key\"\n{\"key\":\"a\",\"key_base64\":\"YQ==\"}\n"
          "{\"key\":{\"key\":\"a\"}}\n{\"key\":\"a\",\"value\":\"b\"} "
          "x\n{\"key\":\"a\",\"value\":\"b\",}\n");
  corpus.Add("json-surrogates", json +
                                    "{\"key\":\"\\ud83d\\ude00\",\"value\":\"\\ud800\"}\n{\"key\":"
                                    "\"\\u0000\",\"value\":\"\\uFFFF\"}");
  corpus.Add("json-nested",
             json + std::string(500, '[') + "\n" + "{\"key\":" + std::string(500, '{'));
  corpus.Add("json-not-utf8", json + "{\"key\":\"\xff\",\"value\":\"\xc0\x80\"}\n");
  corpus.Add("base64", tsv + "AAAA\nAAA=\nAA==\nA===\n====\nAB==\nAAB=\n+/+/\n");
}

void MakeOptions(const std::filesystem::path& root) {
  Corpus corpus(root, "options");
  const auto add = [&](const std::string& name, char what, const std::string& text) {
    corpus.Add(name, std::string(1, what) + text);
  };
  size_t number = 0;
  for (const char* size :
       {"4096", "256M", "1.5G", "64kib", "0", "9223372036854775807", "9223372036854775808",
        "8796093022207M", "7.99999999999999999999E", "1e5", "-1", ".5K", "1.", "1T ", "inf", "nan",
        "0x10", "00000000000000000001", "8388608T"}) {
    add("size-" + std::to_string(number++), 0, size);
  }
  for (const char* name :
       {"listdb", "nvlsm-leveled", "optane", "jsonl", "x.ndjson", "unknown", ""}) {
    add("name-" + std::to_string(number++), 1, name);
  }
  add("globals", 2, "listdb\ncacheline\n1G\n8G\n/pmem0");
  add("globals-defaults", 2, "");
  add("globals-bad-engine", 2, "rocks\n\n\n\n");
  add("globals-bad-medium", 2, "\npages\n\n\n");
  add("globals-bad-size", 2, "\npage\n1X\n\n");
  add("range", 3, "a\nb\nab\nabc");
  add("range-ff", 3, "\n\n\\xff\\xff\n\\xff\\xff\\x00");
  add("range-empty", 3, "z\na\n");
  add("range-prefix-behind", 3, "b\n\na");
  add("store", 4, "lamella");
  add("store-options", 4, "lamella:engine=listdb:braided=off:x==");
  add("store-colons", 4, "lamella::=:a");
  add("store-peer", 4, "rocksdb:a=b");
  add("bench", 5, "--num\n1000\n--stores\nlamella,lmdb\n--threads\n1,2,4\n--workloads\nreadrandom");
  add("bench-ranges", 5, "--num=0\n--key-size\n65536");
  add("bench-key-room", 5, "--num=2000000000\n--key-size\n4");
  add("bench-help", 5, "--help");
  add("bench-list", 5, "--list\n--seed\n18446744073709551615");
  add("bench-unknown", 5, "--nonesuch\nx\n--");
  add("bench-option", 5, "--option\nbraided=off\n--option\n=x\n--memory\n1048576");
}

}  // namespace lamella::fuzz
