#include "resp/encoder.hpp"

#include <cassert>
#include <charconv>
#include <exception>

namespace conch::resp {

namespace {

constexpr std::size_t most_digits = 20;  // -9223372036854775808, 18446744073709551615

// Type, digits, CR LF.
constexpr std::size_t longest_header = 1 + most_digits + 2;
constexpr std::size_t shortest_header = 1 + 1 + 2;

char* put_line_end(char* to) noexcept {
  *to++ = '\r';
  *to++ = '\n';
  return to;
}

// Needs longest_header bytes; returns their end.
char* put_header(char* to, char type, std::size_t n) noexcept {
  *to++ = type;
  if (n >= 100) return put_line_end(std::to_chars(to, to + most_digits, n).ptr);
  if (n >= 10) *to++ = static_cast<char>('0' + n / 10);
  *to++ = static_cast<char>('0' + n % 10);
  return put_line_end(to);
}

// Has the number fewer than ten characters?
bool is_short(std::int64_t value) noexcept { return value < 1'000'000'000 && value > -100'000'000; }
bool is_short(std::uint64_t value) noexcept { return value < 1'000'000'000; }

}  // namespace

// cppcheck-suppress uninitMemberVar ; bytes_ is room, of which only what was written is read: clearing it would cost
// each command
command_writer::command_writer(std::string& out, std::size_t argc)
    : out_(out),
      end_(put_header(bytes_, '*', argc)),
      missing_(argc),
      exceptions_(std::uncaught_exceptions()) {
  assert(argc > 0);
}

// cppcheck-suppress uninitMemberVar ; as above
command_writer::command_writer(std::string& out, command_beginning const& beginning)
    : out_(out),
      end_(bytes_),
      missing_(beginning.missing_),
      exceptions_(std::uncaught_exceptions()) {
  assert(missing_ > 0);
  std::string const& bytes = beginning.bytes_;
  if (bytes.size() <= short_command) {
    end_ = put(bytes_, bytes);
  } else {
    out_.append(bytes);
  }
}

command_writer::~command_writer() { assert(missing_ == 0 || std::uncaught_exceptions() > exceptions_); }

command_writer& command_writer::arg(std::string_view text) {
  if (text.size() > longest_in_place) return arg(std::initializer_list<std::string_view>{text});
  put(begin(text.size()), text);
  end();
  return *this;
}

command_writer& command_writer::arg(std::initializer_list<std::string_view> pieces) {
  std::size_t size = 0;
  for (auto const piece : pieces) {
    size += piece.size();
  }
  if (size <= longest_in_place) {
    char* to = begin(size);
    for (auto const piece : pieces) {
      to = put(to, piece);
    }
    end();
    return *this;
  }
  end_ = put_header(room(longest_header), '$', size);
  spill();
  for (auto const piece : pieces) {
    out_.append(piece);
  }
  end_ = put_line_end(bytes_);
  end();
  return *this;
}

char* command_writer::begin(std::size_t size) {
  assert(size <= longest_in_place);
  char* const to = put_header(room(longest_header + size + 2), '$', size);
  end_ = put_line_end(to + size);
  return to;
}

void command_writer::end() {
  assert(missing_ > 0);
  if (--missing_ == 0) spill();
}

command_writer& command_writer::arg(std::int64_t value) { return number(value); }

command_writer& command_writer::arg(std::uint64_t value) { return number(value); }

template <class Integer>
command_writer& command_writer::number(Integer value) {
  // The header is written when the digits are there, but its length is known before.
  char* const header = room(longest_header + most_digits + 2);
  char* const text = header + (is_short(value) ? shortest_header : shortest_header + 1);
  char* const stop = std::to_chars(text, text + most_digits, value).ptr;
  [[maybe_unused]] char const* const end_of_header = put_header(header, '$', static_cast<std::size_t>(stop - text));
  assert(end_of_header == text);
  end_ = put_line_end(stop);
  end();
  return *this;
}

// Where the next n bytes go; n is at most short_command.
char* command_writer::room(std::size_t n) {
  if (static_cast<std::size_t>(bytes_ + short_command - end_) < n) spill();
  return end_;
}

void command_writer::spill() {
  out_.append(bytes_, static_cast<std::size_t>(end_ - bytes_));
  end_ = bytes_;
}

command_beginning::command_beginning(std::size_t argc, std::initializer_list<std::string_view> args)
    : missing_(argc - args.size()) {
  assert(argc > args.size());
  bytes_ = "*" + std::to_string(argc) + "\r\n";
  for (auto const text : args) {
    bytes_.append("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
  }
}

void append_command(std::string& out, std::initializer_list<std::string_view> args) {
  command_writer writer(out, args.size());
  for (auto const text : args) {
    writer.arg(text);
  }
}

}  // namespace conch::resp
