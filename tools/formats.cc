#include "tools/formats.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lamella/db.h"

namespace lamella::tools {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kExcerptBytesMax = 40;

constexpr std::string_view kRecordMembers =
    R"({"key" or "key_base64": STRING, "value" or "value_base64": STRING})";

uint8_t Byte(char c) { return static_cast<uint8_t>(c); }

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void AppendHexEscape(char c, std::string* out) {
  *out += "\\x";
  *out += kHexDigits[Byte(c) >> 4];
  *out += kHexDigits[Byte(c) & 15];
}

/// Bytes of the UTF-8 sequence that starts `text`; 0 where there is none.
size_t Utf8SequenceBytes(std::string_view text) {
  const uint8_t lead = Byte(text[0]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  // The second byte's range keeps out overlong forms, surrogates and what lies above U+10FFFF.
  const uint8_t second = Byte(text[1]);
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (second < low || second > high) return 0;
  for (size_t i = 2; i < length; i++) {
    if ((Byte(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

constexpr std::array<int8_t, 256> MakeBase64Values() {
  std::array<int8_t, 256> values{};
  for (int8_t& v : values) v = -1;
  for (size_t i = 0; i < kBase64Digits.size(); i++) {
    values[static_cast<uint8_t>(kBase64Digits[i])] = static_cast<int8_t>(i);
  }
  return values;
}
constexpr std::array<int8_t, 256> kBase64Values = MakeBase64Values();

Status CheckLimits(std::string_view key, std::string_view value) {
  if (key.empty())
    return Status::InvalidArgument("expected a key of 1 to 65,535 bytes, found an empty one");
  if (key.size() > kKeyBytesMax) {
    return Status::InvalidArgument(fmt::format(
        "expected a key of 1 to 65,535 bytes, found {} bytes: {}", key.size(), Excerpt(key)));
  }
  if (value.size() > kValueBytesMax) {
    return Status::InvalidArgument(fmt::format("expected a value of at most {} bytes, found {}",
                                               kValueBytesMax, value.size()));
  }
  return Status::OK();
}

Status ParseTsv(std::string_view line, std::string* key, std::string* value) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos) {
    return Status::InvalidArgument("expected key<TAB>value, found no TAB in " + Excerpt(line));
  }
  if (line.find('\t', tab + 1) != std::string_view::npos) {
    return Status::InvalidArgument(
        "expected key<TAB>value, found a second TAB (write \\t for one in a key or value) in " +
        Excerpt(line));
  }
  if (Status s = Unescape(line.substr(0, tab), key); !s.ok()) {
    return Status::InvalidArgument(fmt::format("in the key: {}", s.message()));
  }
  if (Status s = Unescape(line.substr(tab + 1), value); !s.ok()) {
    return Status::InvalidArgument(fmt::format("in the value: {}", s.message()));
  }
  return Status::OK();
}

/// Takes the events of one line's JSON. Whatever is not a flat object of the four known members
/// stops the parse at once, so that deep nesting costs nothing.
class RecordHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  RecordHandler(std::string* key, std::string* value) : key_(key), value_(value) {}

  Status Finish() {
    if (!error_.empty()) return Status::InvalidArgument(error_);
    if (!key_seen_ || !value_seen_) {
      return Status::InvalidArgument(
          fmt::format("expected {}, found no {}", kRecordMembers, key_seen_ ? "value" : "key"));
    }
    return Status::OK();
  }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a number"); }
  bool number_unsigned(number_unsigned_t) override { return Unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected("a number"); }
  bool binary(binary_t&) override { return Unexpected("binary"); }
  bool start_array(size_t) override { return Unexpected("an array"); }
  bool end_array() override { return true; }
  bool end_object() override { return true; }

  bool start_object(size_t) override {
    if (in_object_) return Unexpected("an object");
    in_object_ = true;
    return true;
  }

  bool key(string_t& name) override {
    base64_ = name.ends_with("_base64");
    const bool is_key = name == "key" || name == "key_base64";
    if (!is_key && name != "value" && name != "value_base64") {
      return Fail(fmt::format("expected {}, found the member {}", kRecordMembers, Excerpt(name)));
    }
    bool* seen = is_key ? &key_seen_ : &value_seen_;
    if (*seen) return Fail(fmt::format("expected one {}, found two", is_key ? "key" : "value"));
    *seen = true;
    target_ = is_key ? key_ : value_;
    return true;
  }

  bool string(string_t& text) override {
    if (target_ == nullptr) return Unexpected("a string");
    if (!base64_) {
      *target_ = std::move(text);
      return true;
    }
    const Status s = DecodeBase64(text, target_);
    return s.ok() || Fail(std::string(s.message()));
  }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    return Fail(fmt::format("expected {}, found what is no JSON at byte {}, at {}", kRecordMembers,
                            position, Excerpt(token)));
  }

 private:
  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }
  bool Unexpected(std::string_view what) {
    return Fail(fmt::format("expected {}, found {}", kRecordMembers, what));
  }

  std::string* const key_;
  std::string* const value_;
  std::string* target_ = nullptr;  // where the next string goes; null before the first member
  bool base64_ = false;
  bool in_object_ = false;
  bool key_seen_ = false;
  bool value_seen_ = false;
  std::string error_;
};

Status ParseJsonLine(std::string_view line, std::string* key, std::string* value) {
  // To the parser it is the end of its input: what comes after one would be passed over.
  if (const size_t nul = line.find('\0'); nul != std::string_view::npos) {
    return Status::InvalidArgument(
        fmt::format("expected {}, found a NUL at byte {} (in a string it is \\u0000)",
                    kRecordMembers, nul + 1));
  }
  RecordHandler handler(key, value);
  // its verdict is in the handler's error
  nlohmann::json::sax_parse(line.begin(), line.end(), &handler);
  return handler.Finish();
}

void AppendJsonField(std::string_view name, std::string_view raw, std::string* out) {
  *out += '"';
  *out += name;
  if (IsUtf8(raw)) {
    *out += "\":";
    AppendJsonString(raw, out);
  } else {
    *out += "_base64\":\"";
    AppendBase64(raw, out);
    *out += '"';
  }
}

}  // namespace

std::string_view FormatName(Format format) { return format == Format::kTsv ? "tsv" : "jsonl"; }

std::optional<Format> FormatFromName(std::string_view name) {
  if (name == "tsv") return Format::kTsv;
  if (name == "jsonl") return Format::kJsonLines;
  return std::nullopt;
}

std::optional<Format> FormatFromPath(std::string_view path) {
  if (path.ends_with(".tsv")) return Format::kTsv;
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson") || path.ends_with(".json"))
    return Format::kJsonLines;
  return std::nullopt;
}

void AppendEscaped(std::string_view raw, std::string* out) {
  const bool utf8 = IsUtf8(raw);
  for (const char c : raw) {
    switch (c) {
      case '\t':
        *out += "\\t";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\\':
        *out += "\\\\";
        break;
      default:
        if (Byte(c) < 0x20 || Byte(c) == 0x7f || (Byte(c) >= 0x80 && !utf8)) {
          AppendHexEscape(c, out);
        } else {
          *out += c;
        }
    }
  }
}

Status Unescape(std::string_view text, std::string* raw) {
  raw->clear();
  size_t at = 0;
  while (at < text.size()) {
    const size_t backslash = std::min(text.find('\\', at), text.size());
    raw->append(text.substr(at, backslash - at));
    if (backslash == text.size()) break;
    // '\n' cannot follow: no escape
    const char kind = backslash + 1 < text.size() ? text[backslash + 1] : '\n';
    at = backslash + 2;
    switch (kind) {
      case 't':
        *raw += '\t';
        continue;
      case 'n':
        *raw += '\n';
        continue;
      case 'r':
        *raw += '\r';
        continue;
      case '\\':
        *raw += '\\';
        continue;
      case '0':
        *raw += '\0';
        continue;
      case 'x':
        if (at + 2 <= text.size() && HexValue(text[at]) >= 0 && HexValue(text[at + 1]) >= 0) {
          *raw += static_cast<char>(HexValue(text[at]) * 16 + HexValue(text[at + 1]));
          at += 2;
          continue;
        }
        break;
      default:
        break;
    }
    return Status::InvalidArgument(
        fmt::format("expected an escape \\t \\n \\\\ \\r \\0 or \\xHH, found {} at byte {}",
                    Excerpt(text.substr(backslash, 4)), backslash));
  }
  return Status::OK();
}

void AppendBase64(std::string_view raw, std::string* out) {
  for (size_t at = 0; at < raw.size(); at += 3) {
    const size_t n = std::min<size_t>(3, raw.size() - at);
    uint32_t bits = uint32_t{Byte(raw[at])} << 16;
    if (n > 1) bits |= uint32_t{Byte(raw[at + 1])} << 8;
    if (n > 2) bits |= Byte(raw[at + 2]);
    *out += kBase64Digits[bits >> 18];
    *out += kBase64Digits[bits >> 12 & 63];
    *out += n > 1 ? kBase64Digits[bits >> 6 & 63] : '=';
    *out += n > 2 ? kBase64Digits[bits & 63] : '=';
  }
}

Status DecodeBase64(std::string_view text, std::string* raw) {
  raw->clear();
  if (text.size() % 4 != 0) {
    return Status::InvalidArgument(
        fmt::format("expected base64 in groups of 4, found {} characters", text.size()));
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::string_view digits = text.substr(0, text.size() - padding);
  uint32_t bits = 0;
  int bit_count = 0;
  for (size_t i = 0; i < digits.size(); i++) {
    const int8_t value = kBase64Values[Byte(digits[i])];
    if (value < 0) {
      return Status::InvalidArgument(
          fmt::format("expected base64 (A-Z a-z 0-9 + /, padded with =), found {} at byte {}",
                      Excerpt(digits.substr(i, 1)), i));
    }
    bits = bits << 6 | static_cast<uint8_t>(value);
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      *raw += static_cast<char>(bits >> bit_count & 0xff);
    }
  }
  // Two spellings of the same bytes would be one too many for a format that is compared.
  if ((bits & ((uint32_t{1} << bit_count) - 1)) != 0) {
    return Status::InvalidArgument(
        "expected zero bits after the last byte of the base64, found others");
  }
  return Status::OK();
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t n = Utf8SequenceBytes(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

void AppendJsonString(std::string_view text, std::string* out) {
  *out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        if (Byte(c) < 0x20 || Byte(c) == 0x7f) {
          *out += "\\u00";
          *out += kHexDigits[Byte(c) >> 4];
          *out += kHexDigits[Byte(c) & 15];
        } else {
          *out += c;
        }
    }
  }
  *out += '"';
}

void AppendRecord(Format format, Fields fields, std::string_view key, std::string_view value,
                  std::string* out) {
  const bool with_value = fields == Fields::kKeyAndValue;
  if (format == Format::kTsv) {
    AppendEscaped(key, out);
    if (with_value) {
      *out += '\t';
      AppendEscaped(value, out);
    }
  } else {
    *out += '{';
    AppendJsonField("key", key, out);
    if (with_value) {
      *out += ',';
      AppendJsonField("value", value, out);
    }
    *out += '}';
  }
  *out += '\n';
}

Status ParseRecord(Format format, std::string_view line, std::string* key, std::string* value) {
  Status s = format == Format::kTsv ? ParseTsv(line, key, value) : ParseJsonLine(line, key, value);
  return s.ok() ? CheckLimits(*key, *value) : s;
}

std::string Excerpt(std::string_view text) {
  const std::string_view head = text.substr(0, kExcerptBytesMax);
  std::string quoted = "\"";
  AppendEscaped(head, &quoted);
  quoted += head.size() < text.size() ? "...\"" : "\"";
  return quoted;
}

}  // namespace lamella::tools
