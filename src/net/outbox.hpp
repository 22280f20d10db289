// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/optional_mutex.hpp"

#include <boost/assert.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace conch::net {

/// When what was added goes out.
enum class flush_due : std::uint8_t { no, at_once, later };

/// Decides when what several parts have added is flushed. The first of a turn is flushed at once if no answer is owed:
/// the server works on it while the client adds the others. These go out together at the end of the turn. Any thread
/// may add while another one takes.
class flush_gate {
 public:
  explicit flush_gate(bool has_threads) : mutex_{has_threads} {}

  /// put() adds something. `owed`: the server has not answered all that it got before. The caller flushes if the result
  /// says so.
  template <class F>
  flush_due add(bool owed, F const& put) {
    bool first = false, early = false;
    {
      std::lock_guard const guard{mutex_};
      put();
      first = !std::exchange(due_, true);
      early = early_ > 0 && --early_ == 0;
    }
    if (early) return flush_due::at_once;
    if (!first) return flush_due::no;
    return owed ? flush_due::later : flush_due::at_once;
  }

  /// put() adds something that goes out with the next flush. The caller need not flush.
  template <class F>
  void add_only(F const& put) {
    std::lock_guard const guard{mutex_};
    put();
  }

  /// True: the caller must flush. What is added until then goes out together.
  bool claim() {
    std::lock_guard const guard{mutex_};
    return !std::exchange(due_, true);
  }

  /// With this many more additions all goes out at once, and not at the end of the turn: the server has nothing else to
  /// do.
  void early(std::size_t number) {
    std::lock_guard const guard{mutex_};
    early_ = number;
  }

  /// swap() takes all that was added.
  template <class F>
  void take(F const& swap) {
    std::lock_guard const guard{mutex_};
    due_ = false;
    early_ = 0;
    swap();
  }

  /// drop() drops all that was added: the connection has ended.
  template <class F>
  void forget(F const& drop) {
    std::lock_guard const guard{mutex_};
    drop();
    due_ = false;
    early_ = 0;
  }

 private:
  optional_mutex mutex_;
  bool due_ = false;
  std::size_t early_ = 0;
};

/// The bytes of one connection that are not written yet. Functions about what is added may be called from any thread,
/// the others by one at a time, which writes.
class outbox {
 public:
  explicit outbox(bool has_threads) : gate_{has_threads} {}

  // ---- what is added
  /// append(std::string& out) appends bytes.
  template <class F>
  flush_due say(bool owed, F const& append) {
    return gate_.add(owed, [&] { append(unwritten_); });
  }
  template <class F>
  void say_only(F const& append) {
    gate_.add_only([&] { append(unwritten_); });
  }
  bool claim() { return gate_.claim(); }
  void early(std::size_t number) { gate_.early(number); }

  // ---- what is written
  /// A new stream: its first bytes go out alone.
  void begin(std::string greeting) {
    writing_ = std::move(greeting);
    write();
  }
  /// A write is under way. Then flush() follows its end, and need not be called now.
  bool is_writing() noexcept {
    if (under_way_) missed_ = true;
    return under_way_;
  }
  /// Takes all that was added, after what finish(std::string& out) appends to it. True: bytes() are to be written.
  template <class F>
  bool flush(F const& finish) {
    gate_.take([&] {
      finish(unwritten_);
      writing_.clear();
      writing_.swap(unwritten_);
    });
    if (writing_.empty()) return false;
    write();
    return true;
  }
  /// They stay in place until written(), or until the stream has ended.
  std::string_view bytes() const {
    BOOST_ASSERT(written_ <= writing_.size());
    return std::string_view{writing_}.substr(written_);
  }
  enum class after : std::uint8_t { rest, nothing, flush };
  /// So many of bytes() are written. What follows: the rest of them is to be written, or flush() is to be called.
  after written(std::size_t size) {
    BOOST_ASSERT(under_way_ && size <= writing_.size() - written_);
    written_ += size;
    if (written_ < writing_.size()) return after::rest;
    under_way_ = false;
    return std::exchange(missed_, false) ? after::flush : after::nothing;
  }

  // ---- the end
  /// The stream has ended, and with it a write.
  void end_stream() noexcept { under_way_ = missed_ = false; }
  /// What was added is no longer written.
  void forget() {
    gate_.forget([this] { unwritten_.clear(); });
  }

 private:
  void write() noexcept {
    written_ = 0;
    under_way_ = true;
  }

  flush_gate gate_;
  std::string unwritten_;

  std::string writing_;
  std::size_t written_ = 0;  // bytes of writing_
  bool under_way_ = false;   // a write
  bool missed_ = false;      // a flush was due while a write was under way
};

}  // namespace conch::net
