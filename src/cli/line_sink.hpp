// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace conch::cli {

/// Lines for a reader that `conch run` must never wait for: neither the renewals nor the end of CMD may depend on it.
///
/// A pipe or a terminal is opened once more for that, without blocking, because O_NONBLOCK on the descriptor that conch
/// was given would change it for all that share it. Lines that do not fit wait here, up to `most_waiting` bytes, and
/// goes out with a later write or flush; beyond that, whole lines are left out. So no line is torn unless the reader
/// stops in the middle of one and never continues.
class line_sink {
 public:
  static constexpr std::size_t most_waiting = 65536;

  explicit line_sink(int fd) noexcept;
  ~line_sink();
  line_sink(line_sink const&) = delete;
  line_sink& operator=(line_sink const&) = delete;

  /// False: the reader has gone, and nothing is written any more.
  bool write(std::string_view line);
  /// Writes what waits, as far as there is room.
  bool flush() noexcept;
  bool is_waiting() const noexcept { return !waiting_.empty(); }

  /// That of standard error, for all that write lines there.
  static line_sink& of_standard_error() noexcept;

 private:
  enum class kind { file, socket, non_blocking, in_pieces };
  /// Bytes that were written; 0: there is no room; -1: the reader has gone.
  long write_some(std::string_view text) const noexcept;

  int fd_;
  kind kind_ = kind::in_pieces;
  bool has_gone_ = false;
  std::string waiting_;
};

}  // namespace conch::cli
