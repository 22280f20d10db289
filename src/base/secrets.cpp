// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/secrets.hpp"

#include "base/process.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace conch {

namespace {

constexpr std::string_view mask = "***";
constexpr std::size_t gram_size = 4;  // characters that are looked up together
constexpr std::size_t enough = 6;     // so many characters of a longer secret are hidden wherever they stand
constexpr std::size_t enough_in_ours = 12;
constexpr std::size_t most_gone = 1024;

int digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_quotation_mark(char c) noexcept { return c == '\'' || c == '"' || c == '`'; }

bool is_of_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
}

/// A text whose characters have one spelling, and where each of them stands in the original.
struct plain_text {
  std::string characters;
  std::vector<std::size_t> begin;  // one more than characters
};

/// One character of any of the spellings `%41`, `\x41`, `A`, `\u0041`, `\"`, `\n`, and how long that spelling is.
std::pair<char, std::size_t> decoded(std::string_view text) {
  auto const byte = [&](std::size_t at) -> int {
    if (at + 1 >= text.size()) return -1;
    int const high = digit(text[at]), low = digit(text[at + 1]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
  };
  if (text[0] == '%' && byte(1) >= 0) return {static_cast<char>(byte(1)), 3};
  if (text[0] != '\\' || text.size() < 2) return {text[0], 1};
  if (text[1] == 'x' && byte(2) >= 0) return {static_cast<char>(byte(2)), 4};
  if (text.starts_with("\\u00") && byte(4) >= 0) return {static_cast<char>(byte(4)), 6};
  if (text[1] == 'n' || text[1] == 'r' || text[1] == 't') return {' ', 2};
  if (text[1] == '\\' || text[1] == '/' || is_quotation_mark(text[1])) return {text[1], 2};
  return {text[0], 1};
}

/// Small letters, and ' ' for what a server does not repeat as it is.
char folded(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return static_cast<unsigned char>(c) < 0x20 || c == '+' ? ' ' : c;
}

plain_text plain(std::string_view text) {
  plain_text now{std::string{text}, {}};
  for (std::size_t i = 0; i <= text.size(); ++i) now.begin.push_back(i);
  // What is encoded twice is decoded twice.
  for (int round = 0; round < 3; ++round) {
    plain_text next;
    for (std::size_t at = 0; at < now.characters.size();) {
      auto const [c, size] = decoded(std::string_view{now.characters}.substr(at));
      next.characters += c;
      next.begin.push_back(now.begin[at]);
      at += size;
    }
    next.begin.push_back(text.size());
    bool const is_last = next.characters.size() == now.characters.size();
    now = std::move(next);
    if (is_last) break;
  }
  for (char& c : now.characters) c = folded(c);
  return now;
}

/// A word of a person is no proof that it was copied from a secret: our own lines consist of them.
bool is_unmistakable(std::string_view characters) {
  bool const only_letters = std::all_of(characters.begin(), characters.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return characters.size() >= (only_letters ? 16U : 8U);
}

/// All secrets of the process. What one client has sent may come back to another one.
class known_secrets {
 public:
  known_secrets() { held_across_forks(mutex_); }

  void add(std::string const& bytes) {
    std::lock_guard const guard{mutex_};
    if (++counts_[bytes] > 1) return;
    index(plain(bytes).characters, 1);
    any_ = true;
  }

  void gone(std::string const& bytes) {
    std::lock_guard const guard{mutex_};
    // A word that anybody may use for another thing is hidden no longer than it must be.
    if (!is_unmistakable(plain(bytes).characters)) return forget(bytes);
    gone_.push_back(bytes);
    if (gone_.size() <= most_gone) return;
    forget(gone_.front());
    gone_.pop_front();
  }

  std::string hide(std::string_view text, told_by by) {
    if (!any_ || text.empty()) return std::string{text};
    plain_text const here = plain(text);
    std::vector<bool> hidden(here.characters.size());
    {
      std::lock_guard const guard{mutex_};
      find_pieces(here.characters, by, hidden);
      if (by == told_by::others) find_beginnings(here.characters, hidden);
    }
    std::string out;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      if (!hidden[i]) out += text.substr(here.begin[i], here.begin[i + 1] - here.begin[i]);
      else if (i == 0 || !hidden[i - 1]) out += mask;
    }
    return out;
  }

 private:
  /// The characters of a gram, whether only other people's words are searched for it, and how many characters in a row are enough.
  using key = std::uint64_t;
  static constexpr std::size_t of_any = 0;  // instead of that number: of any secret
  static key key_of(std::string_view gram, bool unmistakable, std::size_t need) {
    key k = need << 1U | (unmistakable ? 1U : 0U);
    for (char const c : gram) k = k << 8U | static_cast<unsigned char>(c);
    return k;
  }
  void forget(std::string const& bytes) {
    auto const at = counts_.find(bytes);
    if (--at->second != 0) return;
    index(plain(bytes).characters, -1);
    counts_.erase(at);
  }

  static std::size_t need_of(std::size_t size, bool unmistakable) { return std::min(size, unmistakable ? enough_in_ours : enough); }

  void index(std::string const& characters, int by) {
    if (characters.empty()) return;
    auto& beginnings = begins_with_[static_cast<unsigned char>(characters[0])];
    if (by > 0) beginnings.push_back(characters);
    else beginnings.erase(std::find(beginnings.begin(), beginnings.end(), characters));
    for (std::size_t i = 0; i + gram_size <= characters.size(); ++i) {
      std::string_view const gram = std::string_view{characters}.substr(i, gram_size);
      for (bool const unmistakable : {false, true}) {
        if (unmistakable && !is_unmistakable(characters)) continue;
        count(key_of(gram, unmistakable, need_of(characters.size(), unmistakable)), by);
        count(key_of(gram, unmistakable, of_any), by);
      }
    }
  }

  void count(key k, int by) {
    auto const at = grams_.try_emplace(k, 0).first;
    if ((at->second += by) == 0) grams_.erase(at);
  }

  /// Runs of characters each four of which are in a secret.
  void find_pieces(std::string_view text, told_by by, std::vector<bool>& hidden) const {
    bool const unmistakable = by == told_by::us;
    bool is_any_known = false;  // mostly not: then one look at each gram is enough
    for (std::size_t i = 0; i + gram_size <= text.size() && !is_any_known; ++i) {
      is_any_known = grams_.contains(key_of(text.substr(i, gram_size), unmistakable, of_any));
    }
    if (!is_any_known) return;
    for (std::size_t need = gram_size; need <= need_of(text.size(), unmistakable); ++need) {
      std::size_t run = 0;  // characters up to and with this gram
      for (std::size_t i = 0; i + gram_size <= text.size(); ++i) {
        bool const is_known = grams_.contains(key_of(text.substr(i, gram_size), unmistakable, need));
        run = !is_known ? 0 : run == 0 ? gram_size : run + 1;
        if (run < need) continue;
        std::size_t const end = i + gram_size;
        std::fill(hidden.begin() + static_cast<std::ptrdiff_t>(end - run), hidden.begin() + static_cast<std::ptrdiff_t>(end), true);
      }
    }
  }

  /// Short secrets that stand alone, and beginnings of secrets up to a quotation mark or the end of the text.
  void find_beginnings(std::string_view text, std::vector<bool>& hidden) const {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i > 0 && is_of_word(text[i - 1])) continue;
      bool const is_quoted = i > 0 && is_quotation_mark(text[i - 1]);
      for (std::string const& one : begins_with_[static_cast<unsigned char>(text[i])]) {
        auto const ends = std::mismatch(one.begin(), one.end(), text.begin() + static_cast<std::ptrdiff_t>(i), text.end());
        auto const size = static_cast<std::size_t>(ends.first - one.begin());
        bool const at_end = i + size == text.size();
        bool const stands_alone = size == one.size() && (at_end || !is_of_word(text[i + size]));
        bool const is_cut = is_quoted ? size >= 2 && (at_end || is_quotation_mark(text[i + size])) : size >= 3 && at_end;
        if (!stands_alone && !is_cut) continue;
        std::fill_n(hidden.begin() + static_cast<std::ptrdiff_t>(i), size, true);
      }
    }
  }

  std::mutex mutex_;
  std::atomic<bool> any_ = false;
  std::unordered_map<std::string, std::size_t> counts_;
  std::deque<std::string> gone_;
  std::unordered_map<key, int> grams_;
  std::array<std::vector<std::string>, 256> begins_with_;  // by the first character
};

known_secrets& all_secrets() {
  static known_secrets* const instance = new known_secrets;  // secrets may be kept by statics
  return *instance;
}

}  // namespace

secret::secret(std::string bytes) {
  if (bytes.empty()) return;
  all_secrets().add(bytes);
  known_ = std::shared_ptr<std::string const>{new std::string{std::move(bytes)}, [](std::string const* gone) {
                                                all_secrets().gone(*gone);
                                                delete gone;
                                              }};
}

std::string const& secret::bytes() const noexcept {
  static std::string const none;
  return known_ ? *known_ : none;
}

std::string without_secrets(std::string_view text, told_by by) { return all_secrets().hide(text, by); }

}  // namespace conch
