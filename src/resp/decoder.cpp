#include "resp/decoder.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace conch::resp {

namespace {

constexpr std::size_t smallest_buffer = 8 * 1024;

// Memory above this is given back as soon as it is not needed. Memory below it is kept, so that ordinary traffic
// settles without allocations.
constexpr std::size_t retained_buffer = 64 * 1024;
constexpr std::size_t retained_nodes = 4096;

// The longest line that holds a 64-bit number, with room for some leading zeros.
constexpr std::uint64_t longest_number_line = 32;

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

constexpr std::size_t count_digits(std::string_view text) noexcept {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) {
    ++n;
  }
  return n;
}

constexpr void skip_sign(std::string_view& text) noexcept {
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    text.remove_prefix(1);
  }
}

constexpr bool is_big_number(std::string_view text) noexcept {
  skip_sign(text);
  return !text.empty() && count_digits(text) == text.size();
}

// `word` is in lower case.
constexpr bool same_word(std::string_view text, std::string_view word) noexcept {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(), [](char a, char b) { return (a | 0x20) == b; });
}

// [+-] digits [. digits] [e [+-] digits], or an infinity, or not a number: in any case and with any
// sign, because older servers print these as their C library does.
constexpr bool is_real(std::string_view text) noexcept {
  skip_sign(text);
  if (same_word(text, "inf") || same_word(text, "nan")) {
    return true;
  }
  auto const take_digits = [&text] {
    auto const n = count_digits(text);
    text.remove_prefix(n);
    return n != 0;
  };
  if (!take_digits()) {
    return false;
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits()) {
      return false;
    }
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    skip_sign(text);
    if (!take_digits()) {
      return false;
    }
  }
  return text.empty();
}

std::string hex(char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  auto const byte = static_cast<unsigned char>(c);
  return {'0', 'x', digits[byte >> 4U], digits[byte & 15U]};
}

}  // namespace

struct decoder::number {
  std::string_view text;
  std::int64_t value = 0;
  std::errc error = {};
};

decoder::decoder(limits bounds) : limits_(bounds) {
  limits_.max_elements = std::max<std::uint64_t>(limits_.max_elements, 1);
}

// ---- the buffer

std::span<char> decoder::prepare(std::size_t at_least) {
  forget_message();
  if (!error_.empty()) {
    begin_ = end_ = position_ = 0;  // it will not be read
  }
  make_room(std::max<std::size_t>(at_least, 1));
  return {buffer_.get() + end_, capacity_ - end_};
}

void decoder::commit(std::size_t n) noexcept {
  assert(n <= capacity_ - end_);
  end_ += n;
}

// The work is linear in the bytes received, whatever the sizes asked for. The bytes handed out since the last move to
// the front pay for the next one. The bytes that fill a new buffer, which is twice as large as needed, pay for that
// buffer.
void decoder::make_room(std::size_t at_least) {
  auto const live = end_ - begin_;
  if (at_least > std::numeric_limits<std::size_t>::max() / 4 - live) {
    throw std::length_error("conch::resp::decoder::prepare");
  }
  auto const needed = live + at_least;
  bool const wasteful = capacity_ > retained_buffer && capacity_ / 4 > needed;
  bool const cheap_move = begin_ >= live;
  auto const room = capacity_ - (cheap_move ? live : end_);
  if (wasteful) {
    relocate(std::max(retained_buffer, 2 * needed));
  } else if (room < at_least) {
    relocate(std::max(smallest_buffer, 2 * needed));
  } else if (cheap_move && begin_ != 0) {
    rebase(buffer_.get());
  }
}

void decoder::relocate(std::size_t capacity) {
  auto fresh = std::make_unique_for_overwrite<char[]>(capacity);
  rebase(fresh.get());
  buffer_ = std::move(fresh);
  capacity_ = capacity;
}

// Moves the unfinished message to `to`, and adjusts all that points into it.
void decoder::rebase(char* to) noexcept {
  auto const live = end_ - begin_;
  if (live != 0) {
    auto const* const from = buffer_.get() + begin_;
    for (auto& n : nodes_) {
      if (n.text.data() != nullptr) {
        n.text = {to + (n.text.data() - from), n.text.size()};
      }
    }
    std::memmove(to, from, live);
    work_ += live + nodes_.size();
  }
  base_ += begin_;
  position_ -= begin_;
  scan_ -= begin_;
  end_ = live;
  begin_ = 0;
}

void decoder::reset() noexcept {
  nodes_.clear();
  open_.clear();
  error_.clear();
  begin_ = end_ = 0;
  base_ = 0;
  advance_to(0);
  awaits_body_ = false;
  skipping_ = 0;
  promised_ = 1;
  ready_ = false;
}

std::size_t decoder::capacity() const noexcept {
  return capacity_ + nodes_.capacity() * sizeof(node) + open_.capacity() * sizeof(frame);
}

// ---- messages

std::span<node const> decoder::message() const noexcept {
  return ready_ ? std::span<node const>(nodes_) : std::span<node const>();
}

bool decoder::is_push() const noexcept { return ready_ && nodes_.front().what == kind::push; }

std::string_view decoder::error() const noexcept { return error_; }

std::string_view decoder::rejected() const noexcept {
  return error_.empty() ? std::string_view{} : std::string_view{buffer_.get() + begin_, end_ - begin_};
}

void decoder::forget_message() {
  if (!ready_) {
    return;
  }
  ready_ = false;
  if (nodes_.capacity() > retained_nodes) {
    std::vector<node>().swap(nodes_);
  } else {
    nodes_.clear();
  }
}

// Every decision below depends only on bytes up to the one that decides it, never on how many have arrived beyond. So
// any split of the input gives the same result.
decoder::progress decoder::next() {
  if (!error_.empty()) {
    return progress::failed;
  }
  forget_message();
  auto const live = end_ - begin_;
  stop_ = live > limits_.max_message ? begin_ + static_cast<std::size_t>(limits_.max_message) : end_;
  for (;;) {
    switch (awaits_body_ ? read_body() : read_value()) {
      case step::value:
        if (close_value()) {
          begin_ = position_;
          promised_ = 1;
          ready_ = true;
          return progress::message;
        }
        break;
      case step::opened: break;
      case step::need_more: return stop_ == end_ ? progress::need_more : fail_message_too_long();
      case step::failed: return progress::failed;
    }
  }
}

// Counts the value just read, and the aggregates it completes. True if that was the whole message.
bool decoder::close_value() noexcept {
  while (!open_.empty()) {
    auto& parent = open_.back();
    if (--parent.missing != 0) {
      return false;
    }
    bool const attribute = parent.attribute;
    open_.pop_back();
    if (attribute) {
      // An attribute precedes a value and is not one itself: that value is still to come.
      --skipping_;
      return false;
    }
  }
  return true;
}

decoder::step decoder::fail(std::string_view what, std::size_t position) {
  nodes_.clear();
  open_.clear();
  error_ = what;
  error_ += " at byte ";
  error_ += std::to_string(base_ + position);
  return step::failed;
}

decoder::progress decoder::fail_message_too_long() {
  fail("message longer than " + std::to_string(limits_.max_message) + " bytes", begin_);
  return progress::failed;
}

// ---- values

decoder::step decoder::read_value() {
  if (position_ == stop_) {
    return step::need_more;
  }
  char const type = buffer_[position_];
  switch (type) {
    case '+': return read_text(kind::simple_string);
    case '-': return read_text(kind::simple_error);
    case ':': return read_integer();
    case '$': return read_string(kind::bulk_string);
    case '*': return read_aggregate(kind::array);
    case '_': return read_null();
    case '#': return read_boolean();
    case ',': return read_text(kind::real);
    case '(': return read_text(kind::big_number);
    case '!': return read_string(kind::bulk_error);
    case '=': return read_string(kind::verbatim_string);
    case '%': return read_aggregate(kind::map);
    case '~': return read_aggregate(kind::set);
    case '|': return read_aggregate(kind::attribute);
    case '>':
      // A push here would be taken for one of the children, and the real child for the reply to the next command.
      // (Older servers do it: PUBLISH to oneself inside MULTI, see redis#12326.)
      if (!open_.empty()) {
        return fail("push inside another value", position_);
      }
      return read_aggregate(kind::push);
    case ';':
    case '.': return fail("streamed strings and aggregates are not supported, found one", position_);
    default: return fail("unknown type " + hex(type), position_);
  }
}

void decoder::emit(kind what, std::uint64_t count, std::int64_t integer, std::string_view text) {
  if (skipping_ != 0) {
    return;
  }
  nodes_.push_back({what, static_cast<std::uint32_t>(open_.size()), count, integer, text});
}

void decoder::advance_to(std::size_t position) noexcept {
  position_ = position;
  scan_ = position + 1;  // past the type
}

// The rest of the line after the type, without its CR LF.
decoder::step decoder::read_line(std::uint64_t longest, std::string_view& text) {
  auto const start = position_ + 1;
  auto i = scan_;
  for (; i < stop_; ++i) {
    char const c = buffer_[i];
    if (c == '\r') {
      if (i + 1 == stop_) {
        break;  // look at the CR again when the LF is there
      }
      work_ += i + 2 - scan_;
      if (buffer_[i + 1] != '\n') {
        return fail("CR without LF", i);
      }
      text = {buffer_.get() + start, i - start};
      return step::value;
    }
    if (c == '\n') {
      return fail("LF without CR", i);
    }
    if (i - start == longest) {
      return fail("line longer than " + std::to_string(longest) + " bytes", position_);
    }
  }
  work_ += i + 1 - scan_;
  scan_ = i;
  return step::need_more;
}

decoder::step decoder::read_number(number& result) {
  auto const start = position_ + 1;
  if (scan_ == start) {
    // Nearly always the whole line is there and plain: it is read in one go, before anything else.
    auto i = start;
    bool const negative = i < stop_ && buffer_[i] == '-';
    if (negative) {
      ++i;
    }
    auto const digits = i;
    auto const safe = std::min(stop_, digits + 18);  // no overflow this far
    std::int64_t value = 0;
    for (; i < safe && is_digit(buffer_[i]); ++i) {
      value = value * 10 + (buffer_[i] - '0');
    }
    work_ += i - start;
    if (i != digits && stop_ - i >= 2 && buffer_[i] == '\r' && buffer_[i + 1] == '\n') {
      result.text = {buffer_.get() + start, i - start};
      result.value = negative ? -value : value;
      return step::value;
    }
  }
  auto const got = read_line(longest_number_line, result.text);
  if (got != step::value) {
    return got;
  }
  auto digits = result.text;
  if (digits.size() > 1 && digits[0] == '+' && is_digit(digits[1])) {
    digits.remove_prefix(1);
  }
  auto const* const last = digits.data() + digits.size();
  auto const [end, error] = std::from_chars(digits.data(), last, result.value);
  result.error = error == std::errc() && end != last ? std::errc::invalid_argument : error;
  return step::value;
}

// The length of a string or aggregate. `null` for exactly -1, which RESP2 sends for "nothing".
decoder::step decoder::read_length(std::uint64_t& length, bool& null) {
  number got;
  if (auto const s = read_number(got); s != step::value) {
    return s;
  }
  if (got.text == "?") {
    return fail("streamed strings and aggregates are not supported, found one", position_);
  }
  null = got.text == "-1";
  if (null) {
    return step::value;
  }
  if (got.error != std::errc() || !is_digit(got.text.front())) {
    return fail("bad length", position_);
  }
  length = static_cast<std::uint64_t>(got.value);
  advance_to(position_ + 1 + got.text.size() + 2);
  return step::value;
}

decoder::step decoder::read_text(kind what) {
  std::string_view text;
  if (auto const s = read_line(limits_.max_text, text); s != step::value) {
    return s;
  }
  if (what == kind::real || what == kind::big_number) {
    work_ += text.size();
    bool const good = what == kind::real ? is_real(text) : is_big_number(text);
    if (!good) {
      return fail(what == kind::real ? "bad double" : "bad big number", position_);
    }
  }
  emit(what, 0, 0, text);
  advance_to(position_ + 1 + text.size() + 2);
  return step::value;
}

decoder::step decoder::read_integer() {
  number got;
  if (auto const s = read_number(got); s != step::value) {
    return s;
  }
  if (got.error == std::errc::result_out_of_range) {
    return fail("integer beyond 64 bits", position_);
  }
  if (got.error != std::errc()) {
    return fail("bad integer", position_);
  }
  emit(kind::integer, 0, got.value, got.text);
  advance_to(position_ + 1 + got.text.size() + 2);
  return step::value;
}

decoder::step decoder::read_null() {
  std::string_view text;
  if (auto const s = read_line(longest_number_line, text); s != step::value) {
    return s;
  }
  if (!text.empty()) {
    return fail("bad null", position_);
  }
  emit(kind::null, 0, 0, {});
  advance_to(position_ + 3);
  return step::value;
}

decoder::step decoder::read_boolean() {
  std::string_view text;
  if (auto const s = read_line(longest_number_line, text); s != step::value) {
    return s;
  }
  if (text != "t" && text != "f") {
    return fail("bad boolean", position_);
  }
  emit(kind::boolean, 0, text == "t" ? 1 : 0, {});
  advance_to(position_ + 4);
  return step::value;
}

decoder::step decoder::read_string(kind what) {
  auto const header = position_;
  std::uint64_t length = 0;
  bool null = false;
  if (auto const s = read_length(length, null); s != step::value) {
    return s;
  }
  if (null) {
    if (what != kind::bulk_string) {
      return fail("bad length", header);
    }
    emit(kind::null, 0, 0, {});
    advance_to(header + 5);
    return step::value;
  }
  if (length > limits_.max_text) {
    return fail("string longer than " + std::to_string(limits_.max_text) + " bytes", header);
  }
  if (what == kind::verbatim_string && length < 4) {
    return fail("bad verbatim string", header);
  }
  // The announced length is refused before the bytes are waited for.
  auto const left = limits_.max_message - (position_ - begin_);
  if (left < 2 || length > left - 2) {
    fail_message_too_long();
    return step::failed;
  }
  awaits_body_ = true;
  body_kind_ = what;
  body_size_ = static_cast<std::size_t>(length);
  return read_body();
}

decoder::step decoder::read_body() {
  if (stop_ - position_ < body_size_ + 2) {
    return step::need_more;
  }
  auto const* const body = buffer_.get() + position_;
  work_ += 2;
  if (body[body_size_] != '\r' || body[body_size_ + 1] != '\n') {
    return fail("string without CR LF after it", position_ + body_size_);
  }
  std::string_view text{body, body_size_};
  if (body_kind_ == kind::verbatim_string) {
    if (text[3] != ':') {
      return fail("bad verbatim string", position_);
    }
    text.remove_prefix(4);
  }
  emit(body_kind_, 0, 0, text);
  awaits_body_ = false;
  advance_to(position_ + body_size_ + 2);
  return step::value;
}

decoder::step decoder::read_aggregate(kind what) {
  auto const header = position_;
  std::uint64_t length = 0;
  bool null = false;
  if (auto const s = read_length(length, null); s != step::value) {
    return s;
  }
  if (null) {
    if (what != kind::array) {
      return fail("bad length", header);
    }
    emit(kind::null, 0, 0, {});
    advance_to(header + 5);
    return step::value;
  }
  bool const attribute = what == kind::attribute;
  std::uint64_t const each = what == kind::map || attribute ? 2 : 1;
  std::uint64_t const itself = attribute ? 1 : 0;  // other values were promised by their parent
  // By division: the announced length may be anything. Nothing is allocated for it.
  auto const left = limits_.max_elements - promised_;
  if (left < itself || length > (left - itself) / each) {
    return fail("more than " + std::to_string(limits_.max_elements) + " values in a message", header);
  }
  if (open_.size() >= limits_.max_depth) {
    return fail("nested deeper than " + std::to_string(limits_.max_depth), header);
  }
  promised_ += itself + length * each;
  if (!attribute) {
    emit(what, length * each, 0, {});
  }
  if (length == 0) {
    return attribute ? step::opened : step::value;
  }
  open_.push_back({length * each, attribute});
  if (attribute) {
    ++skipping_;
  }
  return step::opened;
}

}  // namespace conch::resp
