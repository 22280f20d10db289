#include "resp/encoder.hpp"

#include <cassert>
#include <charconv>
#include <cstring>
#include <exception>

namespace conch::resp {

namespace {

// Type, up to 20 digits, CR LF.
constexpr std::size_t longest_header = 1 + 20 + 2;

// Up to here an argument is put together on the stack and appended in one go.
constexpr std::size_t short_text = 128;

char* put_line_end(char* at) noexcept {
  *at++ = '\r';
  *at++ = '\n';
  return at;
}

// Needs longest_header bytes; returns their end.
char* put_header(char* at, char type, std::size_t n) noexcept {
  *at++ = type;
  return put_line_end(std::to_chars(at, at + 20, n).ptr);
}

void append(std::string& out, char const* first, char const* last) {
  out.append(first, static_cast<std::size_t>(last - first));
}

void append_bulk(std::string& out, std::initializer_list<std::string_view> pieces) {
  std::size_t size = 0;
  for (auto const piece : pieces) {
    size += piece.size();
  }
  char whole[longest_header + short_text + 2];
  char* end = put_header(whole, '$', size);
  if (size <= short_text) {
    for (auto const piece : pieces) {
      if (!piece.empty()) {
        std::memcpy(end, piece.data(), piece.size());  // data() may be null if empty
      }
      end += piece.size();
    }
    append(out, whole, put_line_end(end));
  } else {
    append(out, whole, end);
    for (auto const piece : pieces) {
      out.append(piece);
    }
    out.append("\r\n", 2);
  }
}

template <class Integer>
void append_bulk_number(std::string& out, Integer value) {
  char digits[20];  // the longest: -9223372036854775808, 18446744073709551615
  auto const* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  append_bulk(out, {{digits, static_cast<std::size_t>(end - digits)}});
}

}  // namespace

command_writer::command_writer(std::string& out, std::size_t argc)
    : out_(out), missing_(argc), exceptions_(std::uncaught_exceptions()) {
  assert(argc > 0);
  char header[longest_header];
  append(out_, header, put_header(header, '*', argc));
}

command_writer::~command_writer() {
  assert(missing_ == 0 || std::uncaught_exceptions() > exceptions_);
}

command_writer& command_writer::arg(std::string_view text) {
  assert(missing_ > 0);
  --missing_;
  append_bulk(out_, {text});
  return *this;
}

command_writer& command_writer::arg(std::initializer_list<std::string_view> pieces) {
  assert(missing_ > 0);
  --missing_;
  append_bulk(out_, pieces);
  return *this;
}

command_writer& command_writer::arg(std::int64_t value) {
  assert(missing_ > 0);
  --missing_;
  append_bulk_number(out_, value);
  return *this;
}

command_writer& command_writer::arg(std::uint64_t value) {
  assert(missing_ > 0);
  --missing_;
  append_bulk_number(out_, value);
  return *this;
}

void append_command(std::string& out, std::initializer_list<std::string_view> args) {
  command_writer writer(out, args.size());
  for (auto const text : args) {
    writer.arg(text);
  }
}

}  // namespace conch::resp
