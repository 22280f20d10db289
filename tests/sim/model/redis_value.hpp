// A reply of a Redis server as a tree, with its RESP form for comparing and for feeding decoders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::sim {

struct value {
  enum class kind : std::uint8_t {
    none,  // nothing comes back at all: the answer to SUBSCRIBE is made of pushes only
    nil,
    simple,     // text, such as OK
    error,      // text: code and message without the leading '-'
    integer,    // integer
    bulk,       // text: any bytes
    array,      // items
    push,       // items, the first one names the sort of push
    map,        // items: key, value, key, value ...
    set,        // items
    boolean,    // integer: 0 or 1
    real,       // text: the digits exactly as the server prints them
    verbatim,   // text: "txt:" and the content
    big_number  // text
  };

  kind type = kind::none;
  std::int64_t integer = 0;
  std::string text;
  std::vector<value> items;

  bool is(kind k) const { return type == k; }
  bool is_error() const { return type == kind::error; }

  // The first word of an error ("NOSCRIPT"), empty for anything else.
  std::string_view error_code() const;

  bool operator==(value const&) const = default;

  static value nothing() { return {}; }
  static value nil() { return of(kind::nil); }
  static value simple(std::string_view text) { return of(kind::simple, text); }
  static value error(std::string_view text) { return of(kind::error, text); }
  static value bulk(std::string_view text) { return of(kind::bulk, text); }
  static value real(double number);
  static value number(std::int64_t number);
  static value truth(bool truth);
  static value list(kind type, std::vector<value> items);

  static value of(kind type, std::string_view text = {}) {
    value result;
    result.type = type;
    result.text = text;
    return result;
  }
};

// The bytes a server sends for this value. With protocol 2, types which RESP2 lacks are written as
// Redis writes them there (a map as a flat array, a double as a bulk string ...).
void append_resp(std::string& out, value const& reply, int protocol = 3);

// One line for a test's failure message.
std::string describe(value const& reply);

// A double as Redis prints scores and as its scripts print numbers: "%.17g".
void append_number(std::string& out, double number);

// What strtod and printf make of most numbers of a script, without their price. False: leave it to them.
bool whole_number(std::string_view text, double& number);
bool whole_number(double number, std::int64_t& whole);

// Texts of errors and statuses as Redis puts them onto the wire: on one line, and ending at the
// first zero byte, because Redis takes them for C strings. An error loses line ends at its ends.
std::string status_line(std::string_view text);
std::string error_line(std::string_view text);

}  // namespace conch::sim
