#include "sim/model/redis_value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace conch::sim {

namespace {

void append_integer(std::string& out, std::int64_t number) {
  char digits[24];
  auto const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

void append_header(std::string& out, char mark, std::size_t size) {
  out += mark;
  append_integer(out, static_cast<std::int64_t>(size));
  out += "\r\n";
}

void append_line(std::string& out, char mark, std::string_view text) {
  out += mark;
  out += text;
  out += "\r\n";
}

void append_blob(std::string& out, char mark, std::string_view text) {
  append_header(out, mark, text.size());
  out += text;
  out += "\r\n";
}

void append_items(std::string& out, char mark, std::size_t count, value const& reply, int protocol) {
  append_header(out, mark, count);
  for (auto const& item : reply.items) {
    append_resp(out, item, protocol);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(byte));
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_description(std::string& out, value const& reply) {
  auto const list = [&](char const* open, char const* close) {
    out += open;
    for (std::size_t i = 0; i < reply.items.size(); ++i) {
      if (i != 0) {
        out += ", ";
      }
      append_description(out, reply.items[i]);
    }
    out += close;
  };
  switch (reply.type) {
    case value::kind::none: out += "nothing"; break;
    case value::kind::nil: out += "nil"; break;
    case value::kind::simple: append_quoted(out += '+', reply.text); break;
    case value::kind::error: append_quoted(out += '-', reply.text); break;
    case value::kind::integer: append_integer(out += ':', reply.integer); break;
    case value::kind::bulk: append_quoted(out, reply.text); break;
    case value::kind::boolean: out += reply.integer != 0 ? "true" : "false"; break;
    case value::kind::real: (out += ',') += reply.text; break;
    case value::kind::verbatim: append_quoted(out += '=', reply.text); break;
    case value::kind::big_number: append_quoted(out += '(', reply.text); break;
    case value::kind::array: list("[", "]"); break;
    case value::kind::push: list("push[", "]"); break;
    case value::kind::map: list("map{", "}"); break;
    case value::kind::set: list("set{", "}"); break;
  }
}

}  // namespace

void append_number(std::string& out, double number) {
  // Below 1e17 "%.17g" prints a whole number without point or exponent.
  if (std::int64_t whole = 0; whole_number(number, whole)) {
    append_integer(out, whole);
    return;
  }
  char digits[40];
  auto const size = std::snprintf(digits, sizeof digits, "%.17g", number);
  out.append(digits, static_cast<std::size_t>(size));
}

namespace {

constexpr std::int64_t exact = std::int64_t{1} << 53;  // up to here a double has all whole numbers

}  // namespace

bool whole_number(std::string_view text, double& number) {
  if (text.empty() || text.size() > 16) {
    return false;
  }
  std::int64_t whole = 0;
  for (char const c : text) {
    if (c < '0' || c > '9') {
      return false;
    }
    whole = whole * 10 + (c - '0');
  }
  number = static_cast<double>(whole);
  return whole <= exact;
}

bool whole_number(double number, std::int64_t& whole) {
  if (!(std::abs(number) <= static_cast<double>(exact))) {
    return false;
  }
  whole = static_cast<std::int64_t>(number);
  return static_cast<double>(whole) == number && (whole != 0 || !std::signbit(number));
}

std::string status_line(std::string_view text) {
  std::string line{text.substr(0, text.find('\0'))};
  std::replace(line.begin(), line.end(), '\r', ' ');
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string error_line(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  auto const first = text.find_first_not_of("\r\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return status_line(text.substr(first, text.find_last_not_of("\r\n") - first + 1));
}

std::string_view value::error_code() const {
  if (type != kind::error) {
    return {};
  }
  return std::string_view{text}.substr(0, text.find(' '));
}

value value::real(double number) {
  value result = of(kind::real);
  append_number(result.text, number);
  return result;
}

value value::number(std::int64_t number) {
  value result = of(kind::integer);
  result.integer = number;
  return result;
}

value value::truth(bool truth) {
  value result = of(kind::boolean);
  result.integer = truth ? 1 : 0;
  return result;
}

value value::list(kind type, std::vector<value> items) {
  value result = of(type);
  result.items = std::move(items);
  return result;
}

void append_resp(std::string& out, value const& reply, int protocol) {
  bool const three = protocol >= 3;
  switch (reply.type) {
    case value::kind::none: break;
    case value::kind::nil: out += three ? "_\r\n" : "$-1\r\n"; break;
    case value::kind::simple: append_line(out, '+', reply.text); break;
    case value::kind::error: append_line(out, '-', reply.text); break;
    case value::kind::integer:
      append_integer(out += ':', reply.integer);
      out += "\r\n";
      break;
    case value::kind::bulk: append_blob(out, '$', reply.text); break;
    case value::kind::boolean:
      if (three) {
        out += reply.integer != 0 ? "#t\r\n" : "#f\r\n";
      } else {
        out += reply.integer != 0 ? ":1\r\n" : ":0\r\n";
      }
      break;
    case value::kind::real:
      if (three) {
        append_line(out, ',', reply.text);
      } else {
        append_blob(out, '$', reply.text);
      }
      break;
    case value::kind::verbatim:
      if (three) {
        append_blob(out, '=', reply.text);
      } else {
        append_blob(out, '$', std::string_view{reply.text}.substr(4));
      }
      break;
    case value::kind::big_number:
      if (three) {
        append_line(out, '(', reply.text);
      } else {
        append_blob(out, '$', reply.text);
      }
      break;
    case value::kind::array: append_items(out, '*', reply.items.size(), reply, protocol); break;
    case value::kind::push: append_items(out, three ? '>' : '*', reply.items.size(), reply, protocol); break;
    case value::kind::map:
      if (three) {
        append_items(out, '%', reply.items.size() / 2, reply, protocol);
      } else {
        append_items(out, '*', reply.items.size(), reply, protocol);
      }
      break;
    case value::kind::set: append_items(out, three ? '~' : '*', reply.items.size(), reply, protocol); break;
  }
}

std::string describe(value const& reply) {
  std::string out;
  append_description(out, reply);
  return out;
}

}  // namespace conch::sim
