// Writes commands as a server reads them: arrays of bulk strings, appended to a buffer.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace conch::resp {

// Writes the text to `to`, which has room for it; returns its end.
inline char* put(char* to, std::string_view text) noexcept {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());  // data() may be null if empty
  return to + text.size();
}

// The first arguments of a command that is written often. They are the same bytes each time, put together once.
class command_beginning {
 public:
  // The whole command has `argc` arguments; these are fewer.
  command_beginning(std::size_t argc, std::initializer_list<std::string_view> args);

 private:
  friend class command_writer;

  std::string bytes_;
  std::size_t missing_;
};

// Appends one command to `out`. The number of arguments (the command's name included) comes first
// on the wire, so it must be known: exactly `argc` calls of arg() or end() before the writer is destroyed,
// or the server takes the next command for the missing arguments. Asserted. It is in `out` when
// the last of them has been written.
class command_writer {
 public:
  // Preconditions: argc > 0; out outlives the writer and is not changed by others meanwhile.
  explicit command_writer(std::string& out, std::size_t argc);
  // The arguments after the beginning are still to come.
  command_writer(std::string& out, command_beginning const& beginning);
  ~command_writer();

  command_writer(command_writer const&) = delete;
  command_writer& operator=(command_writer const&) = delete;

  // Any bytes. Precondition: text does not point into out.
  command_writer& arg(std::string_view text);

  // One argument in pieces. Precondition: none of them points into out.
  command_writer& arg(std::initializer_list<std::string_view> pieces);

  // One argument of `size` bytes that the caller writes to where begin() points, before it calls end().
  // Precondition: size <= longest_in_place.
  static constexpr std::size_t longest_in_place = 256;
  char* begin(std::size_t size);
  void end();

  // A number in decimal.
  command_writer& arg(std::int64_t value);
  command_writer& arg(std::uint64_t value);

  // Other integers, so that arg(1) is not ambiguous. Not bool or char: what should they write?
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) command_writer& arg(T value) {
    if constexpr (std::signed_integral<T>) {
      return arg(static_cast<std::int64_t>(value));
    } else {
      return arg(static_cast<std::uint64_t>(value));
    }
  }

 private:
  template <class Integer>
  command_writer& number(Integer value);
  char* room(std::size_t n);
  void spill();

  // Most commands are put together here, and appended in one go.
  static constexpr std::size_t short_command = 512;

  std::string& out_;
  char* end_;
  std::size_t missing_;
  int exceptions_;  // in flight at construction: an argument that throws leaves a command
                    // unfinished
  char bytes_[short_command];
};

// The whole command at once, e.g. append_command(out, {"GET", key}).
// Preconditions: args is not empty and does not point into out.
void append_command(std::string& out, std::initializer_list<std::string_view> args);

}  // namespace conch::resp
