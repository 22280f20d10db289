// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/resp.hpp"

#include "cli/exit_code.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::cli {

namespace {

constexpr std::size_t deepest = 8, longest_line = std::size_t{64} << 10U;

[[noreturn]] void refuse() { throw failure{exit_code::refused, "the server does not speak the protocol of Redis"}; }

[[noreturn]] void refuse_length() { throw failure{exit_code::refused, "the server's answer is longer than any that conch asks for"}; }

std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) refuse();
  return number;
}

/// Of a string or an array; -1: there is none.
std::int64_t length_of(std::string_view text) {
  std::int64_t const size = number_of(text);
  if (size < -1) refuse();
  return size;
}

}  // namespace

std::string encoded(std::vector<std::string> const& command) {
  std::string out = '*' + std::to_string(command.size()) + "\r\n";
  for (std::string const& word : command) out += '$' + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return out;
}

std::optional<reply> reply_reader::next() {
  for (;;) {
    reply one;
    if (!read_one(one)) {
      input_.erase(0, at_);
      looked_at_ -= std::min(looked_at_, at_);
      at_ = 0;
      return std::nullopt;
    }
    if (one.what == reply::kind::array && one.number > 0) {
      if (arrays_.size() == deepest) refuse();
      auto const size = static_cast<std::size_t>(std::exchange(one.number, 0));
      count_items(size);
      arrays_.push_back({std::move(one), size});
      continue;
    }
    // What is complete completes the arrays that it is the last of.
    while (!arrays_.empty()) {
      unfinished& in = arrays_.back();
      in.array.items.push_back(std::move(one));
      if (--in.left > 0) break;
      one = std::move(in.array);
      arrays_.pop_back();
      if (arrays_.empty()) {
        bytes_ = items_ = 0;
        return one;
      }
    }
    if (arrays_.empty()) {
      bytes_ = items_ = 0;
      return one;
    }
  }
}

/// A value without its items; of an array their number. False: it is not complete yet.
bool reply_reader::read_one(reply& into) {
  if (string_size_) return string_of(*string_size_, into);
  std::optional<std::string_view> const all = line();
  if (!all) return false;
  if (all->empty()) refuse();
  std::string_view const rest = all->substr(1);
  switch (all->front()) {
    case '+':
    case '-':
      into.what = all->front() == '+' ? reply::kind::status : reply::kind::error;
      into.text = rest;
      return true;
    case ':':
      into.what = reply::kind::integer;
      into.number = number_of(rest);
      return true;
    case '$': {
      std::int64_t const size = length_of(rest);
      if (size < 0) return true;
      if (static_cast<std::uint64_t>(size) > most_bytes) refuse_length();
      return string_of(static_cast<std::size_t>(size), into);
    }
    case '*': {
      std::int64_t const size = length_of(rest);
      if (size < 0) return true;
      into.what = reply::kind::array;
      into.number = size;
      return true;
    }
    default: refuse();
  }
}

std::optional<std::string_view> reply_reader::line() {
  auto const end = input_.find("\r\n", std::max(at_, looked_at_));
  if (end == std::string::npos) {
    if (input_.size() - at_ > longest_line) refuse();
    looked_at_ = input_.empty() ? 0 : input_.size() - 1;  // its last byte may be the first of the end
    return std::nullopt;
  }
  std::string_view const all = std::string_view{input_}.substr(at_, end - at_);
  bytes_ += all.size() + 2;
  if (all.size() > longest_line) refuse();
  if (bytes_ > most_bytes) refuse_length();
  at_ = end + 2;
  return all;
}

bool reply_reader::string_of(std::size_t size, reply& into) {
  if (bytes_ + size > most_bytes) refuse_length();
  string_size_ = size;
  if (input_.size() - at_ < size + 2) return false;
  string_size_.reset();
  into.what = reply::kind::string;
  into.text = input_.substr(at_, size);
  at_ += size + 2;
  bytes_ += size + 2;
  return true;
}

void reply_reader::count_items(std::size_t more) {
  if (more > most_items - items_) refuse_length();
  items_ += more;
}

}  // namespace conch::cli
