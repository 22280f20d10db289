// An incremental decoder for what a Redis server sends: RESP3, and RESP2's nulls.
//
// No I/O: the caller reads into prepare(), says how much with commit(), and calls next() until it
// wants more. Whatever the pieces in which the bytes arrive, the messages and the error are the
// same, and the work done is linear in the bytes received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::resp {

enum class kind : std::uint8_t {
  simple_string,
  simple_error,
  integer,
  bulk_string,
  array,
  null,
  boolean,
  real,
  big_number,
  bulk_error,
  verbatim_string,
  map,
  set,
  attribute,  // never part of a message: the decoder skips attributes
  push,
};

// One value of a message. A message is the list of its values in the order in which they were
// sent (pre-order): an aggregate is followed by its children.
struct node {
  kind what = kind::null;
  std::uint32_t depth = 0;     // 0: the message itself
  std::uint64_t count = 0;     // aggregates: number of direct children (maps: two per pair)
  std::int64_t integer = 0;    // integers, and booleans as 0 or 1
  std::string_view text = {};  // strings, errors, and numbers as sent; verbatim strings without
                               // the format ("txt:") in front
};

// What one message may cost. A peer that exceeds a limit is not a Redis server we want to talk to,
// so exceeding one is an error like any malformed byte. Attributes count although they are skipped.
struct limits {
  std::uint32_t max_depth = 16;            // aggregates inside one another, the outermost included
  std::uint64_t max_elements = 1U << 20;   // values in one message; at least 1 is allowed
  std::uint64_t max_text = 64U << 20;      // bytes of one string, error, double or big number
  std::uint64_t max_message = 128U << 20;  // bytes of one message, headers included
};

class decoder {
 public:
  explicit decoder(limits bounds = {});

  // The nodes of a message point into the buffer.
  decoder(decoder const&) = delete;
  decoder& operator=(decoder const&) = delete;

  // Room for at least `at_least` bytes (taken as 1 if 0), to read into; usually there is more.
  // Ends the life of the current message. The room stays where it is until the next prepare() or
  // reset(), so next() may be called while a read into it is under way. A small at_least makes
  // for small reads when the buffer is nearly full: pass the least you would call a good read.
  // Throws std::bad_alloc or std::length_error.
  [[nodiscard]] std::span<char> prepare(std::size_t at_least);

  // The first n bytes of the room last prepared have been filled.
  void commit(std::size_t n) noexcept;

  enum class progress : std::uint8_t {
    need_more,  // no complete message: prepare, read, commit, try again
    message,    // message() is the next one
    failed,     // error() says why; only reset() helps
  };

  // Advances to the next complete message. Ends the life of the current one. Throws std::bad_alloc,
  // after which only reset() helps.
  [[nodiscard]] progress next();

  // The message that next() announced; empty if it announced none. Nodes and the texts they
  // refer to are valid until the next next(), prepare() or reset().
  [[nodiscard]] std::span<node const> message() const noexcept;

  // True if message() is out of band rather than the reply to a command.
  [[nodiscard]] bool is_push() const noexcept;

  // What was wrong, in words, with the position in the stream since construction or reset();
  // empty unless next() has returned failed. Repeats none of the received text, which may be
  // secret.
  [[nodiscard]] std::string_view error() const noexcept;

  // After next() has returned failed: what has come in of the wrong message, and after it.
  // Valid as error() is, and no longer than the next prepare().
  [[nodiscard]] std::string_view rejected() const noexcept;

  // As new, for a new connection; keeps the memory.
  void reset() noexcept;

  // Memory held, in bytes.
  [[nodiscard]] std::size_t capacity() const noexcept;

  // Bytes examined and bytes or nodes moved, since construction: what tests bound instead of time.
  [[nodiscard]] std::uint64_t work() const noexcept { return work_; }

 private:
  enum class step : std::uint8_t {
    value,   // a whole value was read (a scalar, or an aggregate without children)
    opened,  // the header of something with children, or an empty attribute: continue
    need_more,
    failed,
  };
  struct frame {
    std::uint64_t missing;  // children still to come
    bool attribute;
  };
  struct number;

  step read_value();
  step read_line(std::uint64_t longest, std::string_view& text);
  step read_number(number& result);
  step read_length(std::uint64_t& length, bool& null);
  step read_text(kind what);
  step read_integer();
  step read_null();
  step read_boolean();
  step read_string(kind what);
  step read_body();
  step read_aggregate(kind what);

  void emit(kind what, std::uint64_t count, std::int64_t integer, std::string_view text);
  void advance_to(std::size_t position) noexcept;
  bool close_value() noexcept;
  step fail(std::string_view what, std::size_t position);
  progress fail_message_too_long();
  void forget_message();
  void make_room(std::size_t at_least);
  void relocate(std::size_t capacity);
  void rebase(char* to) noexcept;

  limits limits_;

  // [begin_, end_) is what was received and not yet handed out. All positions are indexes into
  // the buffer; base_ is where in the stream the buffer starts.
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // first byte of the unfinished message
  std::size_t end_ = 0;    // end of the received bytes
  std::uint64_t base_ = 0;

  // How far the unfinished message has been read: everything before position_ is in nodes_ and
  // open_, and nothing before scan_ needs to be looked at again to find the end of the line.
  std::size_t position_ = 0;  // of the value to read next, or of its body once that is awaited
  std::size_t scan_ = 1;
  std::size_t stop_ = 0;  // end of what may be read: received, and within max_message
  bool awaits_body_ = false;
  kind body_kind_ = kind::bulk_string;
  std::size_t body_size_ = 0;
  std::vector<frame> open_;
  std::uint32_t skipping_ = 0;  // attributes in open_
  std::uint64_t promised_ = 1;  // values the unfinished message has announced, this far

  std::vector<node> nodes_;
  bool ready_ = false;  // nodes_ is a whole message
  std::string error_;
  std::uint64_t work_ = 0;
};

}  // namespace conch::resp
