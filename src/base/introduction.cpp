// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/introduction.hpp"

#include "base/hex.hpp"
#include "base/numbers.hpp"
#include "base/percent.hpp"
#include "base/readable.hpp"

#include <algorithm>
#include <optional>

namespace conch {

namespace {

constexpr std::string_view digits = "0123456789abcdef";
constexpr std::size_t longest_lock = 512, longest_task = 64;

bool is_plain(char c) { return c > ' ' && c < 127 && c != '%'; }

/// None: to_word() makes no such word, or of a longer text.
std::optional<std::string> from_word(std::string_view word, std::size_t longest) {
  if (word.empty()) return std::nullopt;
  if (word == "%") return std::string{};
  auto text = percent_decoded(word, digits);
  return text && text->size() <= longest ? text : std::nullopt;
}

std::string_view next(std::string_view& text, char separator) {
  auto const end = std::min(text.find(separator), text.size());
  std::string_view const one = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return one;
}

}  // namespace

std::string to_word(std::string_view text) {
  std::string const word = percent_encoded(text, digits, [text](std::size_t i) { return is_plain(text[i]); });
  return word.empty() ? "%" : word;
}

std::string to_text(introduction const& i) {
  std::string text = to_word(i.label);
  std::size_t left = most_uses;
  for (introduction::use const& one : i.uses) {
    if (left-- == 0) break;
    text.append("\n").append(std::to_string(one.fence)).append(" ").append(to_word(one.lock));
    text.append(" ").append(to_word(one.note));
    if (!one.with.empty()) text.append(" ").append(to_word(one.with));
  }
  return text;
}

introduction read_introduction(std::string_view text) {
  introduction all;
  all.label = from_word(next(text, '\n'), longest_label).value_or("");
  while (!text.empty() && all.uses.size() < most_uses) {
    std::string_view line = next(text, '\n');
    auto const fence = whole_number<std::int64_t>(next(line, ' '));
    auto lock = from_word(next(line, ' '), longest_lock);
    auto note = from_word(next(line, ' '), longest_note);
    auto with = line.empty() ? std::optional{std::string{}} : from_word(line, longest_task);
    if (fence && *fence >= 0 && lock && note && with)
      all.uses.push_back({std::move(*lock), std::move(*note), *fence, std::move(*with)});
  }
  return all;
}

std::optional<std::string> note_of(introduction const& i, std::string_view lock, std::int64_t fence) {
  introduction::use const* found = nullptr;
  for (introduction::use const& one : i.uses) {
    if (one.lock != lock || one.fence != fence) continue;
    if (found != nullptr) return std::nullopt;
    found = &one;
  }
  return found != nullptr ? std::optional{found->note} : std::nullopt;
}

std::string name_of_client(std::string_view label, std::string_view note, std::string_view client) {
  std::string const name = label.empty() ? "client " + printable(client) : printable(label);
  return note.empty() ? name : name + " (" + printable(note) + ')';
}

std::string name_and_id_of_client(std::string_view label, std::string_view note, std::string_view client) {
  std::string const name = name_of_client(label, note, client);
  return label.empty() ? name : name + ", client " + printable(client);
}

namespace detail {

std::string id_of(std::array<std::uint32_t, 4> const& words) {
  std::string bytes;
  for (std::uint32_t const word : words) {
    for (unsigned const shift : {24u, 16u, 8u, 0u}) bytes += static_cast<char>(word >> shift & 255u);
  }
  return in_hex(bytes);
}

}  // namespace detail

}  // namespace conch
