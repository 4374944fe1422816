// The two text formats of records that `lamella load`, `dump` and `scan` speak. Both carry any
// bytes and give them back exactly.
//
// TSV: one record a line, `key<TAB>value`. A backslash starts an escape: \t \n \\ \r \0 and \xHH
// (two hex digits). Every other byte stands for itself, so a line holds exactly one TAB, and a \r
// before the end of line belongs to the value. Written: control bytes as escapes, NUL as \x00;
// bytes from 0x80 up as they are where the field is UTF-8, else as \xHH.
//
// JSON lines: one object a line, {"key": STRING, "value": STRING}. A field that is not UTF-8 is
// written, and may always be read, as base64 (RFC 4648, padded) under "key_base64" or
// "value_base64". No other member is allowed.
//
// I1: ParseRecord(AppendRecord(key, value)) gives key and value back, for every key of 1 to 65,535
//     bytes and every value.
// I2: a line that does not parse changes nothing but *key and *value, and its Status says what was
//     expected and found.
// Threads: pure functions; any.
#ifndef LAMELLA_TOOLS_FORMATS_H_
#define LAMELLA_TOOLS_FORMATS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "lamella/status.h"

namespace lamella::tools {

enum class Format { kTsv, kJsonLines };

/// Which fields of a record are written.
enum class Fields { kKeyAndValue, kKeyOnly };

/// "tsv" or "jsonl".
std::string_view FormatName(Format format);
/// nullopt for an unknown name.
std::optional<Format> FormatFromName(std::string_view name);
/// By extension: .tsv; .jsonl, .ndjson or .json. nullopt for any other.
std::optional<Format> FormatFromPath(std::string_view path);

/// Appends `raw` with the escapes of TSV.
void AppendEscaped(std::string_view raw, std::string* out);
/// Sets *raw to what the escaped `text` stands for. InvalidArgument: an escape that is none.
Status Unescape(std::string_view text, std::string* raw);

void AppendBase64(std::string_view raw, std::string* out);
/// InvalidArgument: a character outside the alphabet, bad padding, or bits after the last byte.
Status DecodeBase64(std::string_view text, std::string* raw);

/// True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text);
/// Appends `text` as a JSON string with its quotes. REQUIRES: IsUtf8(text).
void AppendJsonString(std::string_view text, std::string* out);

/// Appends one line, with its "\n".
void AppendRecord(Format format, Fields fields, std::string_view key, std::string_view value,
                  std::string* out);
/// Reads one line, given without its "\n". InvalidArgument: it is not a record of that format, or
/// its key or value is outside the limits of a store.
Status ParseRecord(Format format, std::string_view line, std::string* key, std::string* value);

/// The first bytes of `text` in quotes, escaped, for messages.
std::string Excerpt(std::string_view text);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_FORMATS_H_
