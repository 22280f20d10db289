#include "resp/encoder.hpp"

#include <cassert>
#include <charconv>
#include <cstring>
#include <exception>

namespace conch::resp {

namespace {

constexpr std::size_t most_digits = 20;  // -9223372036854775808, 18446744073709551615

// Type, digits, CR LF.
constexpr std::size_t longest_header = 1 + most_digits + 2;

char* put_line_end(char* at) noexcept {
  *at++ = '\r';
  *at++ = '\n';
  return at;
}

// Needs longest_header bytes; returns their end.
char* put_header(char* at, char type, std::size_t n) noexcept {
  *at++ = type;
  if (n < 10) {
    *at++ = static_cast<char>('0' + n);
  } else if (n < 100) {
    *at++ = static_cast<char>('0' + n / 10);
    *at++ = static_cast<char>('0' + n % 10);
  } else {
    at = std::to_chars(at, at + most_digits, n).ptr;
  }
  return put_line_end(at);
}

}  // namespace

// cppcheck-suppress uninitMemberVar ; bytes_ is room, of which only what was written is read: clearing it would cost each command
command_writer::command_writer(std::string& out, std::size_t argc)
    : out_(out), end_(put_header(bytes_, '*', argc)), missing_(argc), exceptions_(std::uncaught_exceptions()) {
  assert(argc > 0);
}

command_writer::~command_writer() {
  assert(missing_ == 0 || std::uncaught_exceptions() > exceptions_);
}

command_writer& command_writer::arg(std::string_view text) {
  return arg(std::initializer_list<std::string_view>{text});
}

command_writer& command_writer::arg(std::initializer_list<std::string_view> pieces) {
  std::size_t size = 0;
  for (auto const piece : pieces) {
    size += piece.size();
  }
  if (longest_header + size + 2 <= short_command) {
    char* end = put_header(room(longest_header + size + 2), '$', size);
    for (auto const piece : pieces) {
      if (!piece.empty()) {
        std::memcpy(end, piece.data(), piece.size());  // data() may be null if empty
      }
      end += piece.size();
    }
    return wrote(put_line_end(end));
  }
  end_ = put_header(room(longest_header), '$', size);
  spill();
  for (auto const piece : pieces) {
    out_.append(piece);
  }
  return wrote(put_line_end(bytes_));
}

command_writer& command_writer::arg(std::int64_t value) {
  return number(value);
}

command_writer& command_writer::arg(std::uint64_t value) {
  return number(value);
}

template <class Integer>
command_writer& command_writer::number(Integer value) {
  char digits[most_digits] = {};
  auto const size = static_cast<std::size_t>(std::to_chars(digits, digits + most_digits, value).ptr - digits);
  char* const text = put_header(room(longest_header + most_digits + 2), '$', size);
  std::memcpy(text, digits, most_digits);  // of a size that is known: what is too much is written over
  return wrote(put_line_end(text + size));
}

// Where the next n bytes go: not more than short_command.
char* command_writer::room(std::size_t n) {
  if (static_cast<std::size_t>(bytes_ + short_command - end_) < n) spill();
  return end_;
}

command_writer& command_writer::wrote(char* end) {
  assert(missing_ > 0);
  end_ = end;
  if (--missing_ == 0) spill();
  return *this;
}

void command_writer::spill() {
  out_.append(bytes_, static_cast<std::size_t>(end_ - bytes_));
  end_ = bytes_;
}

void append_command(std::string& out, std::initializer_list<std::string_view> args) {
  command_writer writer(out, args.size());
  for (auto const text : args) {
    writer.arg(text);
  }
}

}  // namespace conch::resp
