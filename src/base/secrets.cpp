// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/secrets.hpp"

#include "base/fork_safe_mutex.hpp"

#include <algorithm>
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
constexpr std::size_t enough = 6;     // any run of this many characters of a longer secret is hidden
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
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// One reading of a text: its characters, and which bytes of the original each of them represents.
struct plain_text {
  std::string characters;
  std::vector<std::size_t> begin, end;

  void add(char c, std::size_t from, std::size_t to) {
    characters += c;
    begin.push_back(from);
    end.push_back(to);
  }
};

/// What the same escape means differs between languages, so a text is read in each of these ways.
enum class dialect {
  c_and_json,  // \163 is octal, \u00e4 a character
  lua_and_dns  // \115 is decimal, \u00e4 a byte, and =73 as in a mail
};

constexpr dialect dialects[] = {dialect::c_and_json, dialect::lua_and_dns};

/// A number of `least` to `most` digits at the start of a text. `size`: how many it has; 0: there is no such number.
struct number {
  std::uint32_t value = 0;
  std::size_t size = 0;
};

number number_in(std::string_view text, int base, std::size_t least, std::size_t most) {
  number n;
  for (; n.size < std::min(most, text.size()); ++n.size) {
    int const next = digit(text[n.size]);
    if (next < 0 || next >= base) break;
    n.value = n.value * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(next);
  }
  return n.size < least ? number{} : n;
}

/// The number between an opening and a closing text, as in `\x{73}` and `&#115;`, and the size of all three.
number enclosed(std::string_view text, std::string_view opening, int base, char closing) {
  if (!text.starts_with(opening)) return {};
  number n = number_in(text.substr(opening.size()), base, 1, 7);
  std::size_t const size = opening.size() + n.size + 1;
  if (n.size == 0 || size > text.size() || text[size - 1] != closing) return {};
  n.size = size;
  return n;
}

/// The number after a text, as in `\x73` and `%73`, and the size of both.
number behind(std::string_view text, std::string_view opening, int base, std::size_t least, std::size_t most) {
  if (!text.starts_with(opening)) return {};
  number n = number_in(text.substr(opening.size()), base, least, most);
  if (n.size != 0) n.size += opening.size();
  return n;
}

/// The bytes of one character, and how long its spelling is.
struct spelling {
  std::string bytes;
  std::size_t size = 1;
};

std::string utf8(std::uint32_t c) {
  auto const tail = [&](unsigned shift) { return static_cast<char>(0x80U | (c >> shift & 0x3fU)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0U | c >> 6U), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0U | c >> 12U), tail(6), tail(0)};
  return {static_cast<char>(0xf0U | (c >> 18U & 7U)), tail(12), tail(6), tail(0)};
}

/// `\u0073`, `\u{73}`, `\U00000073`, `%u0073`, `&#115;`, `&#x73;`: a character by its number.
spelling character_by_number(std::string_view text, dialect d) {
  for (number const n : {behind(text, "\\u", 16, 4, 4), behind(text, "\\U", 16, 8, 8), behind(text, "%u", 16, 4, 4),
                         enclosed(text, "\\u{", 16, '}'), enclosed(text, "&#", 10, ';'), enclosed(text, "&#x", 16, ';'),
                         enclosed(text, "&#X", 16, ';')}) {
    if (n.size == 0) continue;
    if (d == dialect::lua_and_dns && n.value < 0x100) return {{static_cast<char>(n.value)}, n.size};
    bool const is_high = n.value >= 0xd800 && n.value < 0xdc00;
    number const low = is_high ? behind(text.substr(n.size), text.substr(0, 2), 16, 4, 4) : number{};
    if (low.value < 0xdc00 || low.value >= 0xe000) return {utf8(n.value), n.size};
    return {utf8(0x10000 + ((n.value - 0xd800) << 10U) + (low.value - 0xdc00)), n.size + low.size};
  }
  return {{}, 0};
}

/// `%73`, `\x73`, `\x{73}`, `\163`, `\0163`, `\o{163}`: a byte by its number.
number byte_by_number(std::string_view text, dialect d) {
  bool const c = d == dialect::c_and_json;
  for (number const n : {behind(text, "%", 16, 2, 2), behind(text, "\\x", 16, 1, 2), behind(text, "\\X", 16, 1, 2),
                         enclosed(text, "\\x{", 16, '}'), enclosed(text, "\\o{", 8, '}'),
                         c ? behind(text, "\\0", 8, 3, 3) : behind(text, "\\", 10, 3, 3),
                         c ? behind(text, "\\", 8, 1, 3) : behind(text, "=", 16, 2, 2)}) {
    if (n.size != 0 && n.value < 0x100) return n;
  }
  return {};
}

spelling decoded(std::string_view text, dialect d) {
  char const first = text[0];
  bool const may_begin = first == '%' || first == '\\' || first == '&' || (first == '=' && d == dialect::lua_and_dns);
  if (!may_begin || text.size() < 2) return {{first}, 1};
  if (number const n = byte_by_number(text, d); n.size != 0) return {{static_cast<char>(n.value)}, n.size};
  if (spelling s = character_by_number(text, d); s.size != 0) return s;
  for (auto const& [name, c] : {std::pair{"&quot;", '"'}, std::pair{"&apos;", '\''}, std::pair{"&amp;", '&'},
                                std::pair{"&lt;", '<'}, std::pair{"&gt;", '>'}}) {
    if (text.starts_with(name)) return {{c}, std::string_view{name}.size()};
  }
  if (first != '\\') return {{first}, 1};
  if (text[1] == 'n' || text[1] == 'r' || text[1] == 't') return {" ", 2};
  if (text[1] == '\\' || text[1] == '/' || is_quotation_mark(text[1])) return {{text[1]}, 2};
  return {{first}, 1};
}

/// Small letters, and ' ' for what a server does not repeat as it is.
char folded(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return static_cast<unsigned char>(c) < 0x20 || c == '+' ? ' ' : c;
}

std::string folded(std::string text) {
  for (char& c : text) c = folded(c);
  return text;
}

plain_text as_it_is(std::string_view text) {
  plain_text all;
  for (std::size_t i = 0; i < text.size(); ++i) all.add(text[i], i, i + 1);
  return all;
}

/// Without escapes. What is encoded twice is decoded twice.
plain_text without_escapes(plain_text now, dialect d) {
  for (int round = 0; round < 3; ++round) {
    plain_text next;
    for (std::size_t position = 0; position < now.characters.size();) {
      spelling const s = decoded(std::string_view{now.characters}.substr(position), d);
      for (char const c : s.bytes) next.add(c, now.begin[position], now.end[position + s.size - 1]);
      position += s.size;
    }
    bool const is_last = next.characters.size() == now.characters.size();
    now = std::move(next);
    if (is_last) break;
  }
  return now;
}

/// What does not belong to a code. A quotation mark stays one: it shows where an argument was cut.
void add_border(plain_text& to, plain_text const& from, std::size_t position) {
  char const c = is_quotation_mark(from.characters[position]) ? from.characters[position] : ' ';
  if (c != ' ' || !to.characters.ends_with(' ')) to.add(c, from.begin[position], from.end[position]);
}

/// What separates or precedes the numbers of a row of bytes.
bool separates(char c) noexcept { return std::string_view{" ,:;-<>{}[]\\%"}.find(c) != std::string_view::npos; }

std::size_t size_of_prefix(std::string_view text) noexcept {
  for (std::string_view const one : {"0x", "0X", "\\x", "\\X", "\\u00", "%u00"}) {
    if (text.starts_with(one)) return one.size();
  }
  return 0;
}

/// Reads runs of digits as bytes in hexadecimal: `736563`, `0x736563`, `73 65 63`, `0x73, 0x65`. Ignores the first
/// `skipped` digits of each run.
plain_text hexadecimal(plain_text const& text, std::size_t skipped) {
  std::string_view const all = text.characters;
  plain_text out;
  for (std::size_t position = 0; position < all.size();) {
    std::size_t const first = position + size_of_prefix(all.substr(position));
    std::size_t end = first;
    while (end < all.size() && digit(all[end]) >= 0 && size_of_prefix(all.substr(end, 2)) == 0) ++end;
    for (std::size_t i = first + skipped; i + 1 < end; i += 2) {
      out.add(static_cast<char>(digit(all[i]) * 16 + digit(all[i + 1])), text.begin[i == first ? position : i],
              text.end[i + 1]);
    }
    if (end - position < 2 && !separates(all[position])) add_border(out, text, position);
    position = std::max(end, position + 1);
  }
  return out;
}

/// A list of numbers is a row of bytes: `[115 101 99]`, `163 145 143`.
plain_text list_of_numbers(plain_text const& text, int base) {
  std::string_view const all = text.characters;
  plain_text out;
  for (std::size_t position = 0; position < all.size();) {
    number const n = number_in(all.substr(position), base, 1, 4);
    if (n.size != 0 && n.value < 0x100)
      out.add(static_cast<char>(n.value), text.begin[position], text.end[position + n.size - 1]);
    else if (!separates(all[position])) add_border(out, text, position);
    position += std::max<std::size_t>(n.size, 1);
  }
  return out;
}

int digit_of_base64(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/// Decodes each word as Base64, also with the alphabet for URLs. Ignores the first `skipped` characters of each word.
plain_text base64(plain_text const& text, std::size_t skipped) {
  std::string_view const all = text.characters;
  plain_text out;
  for (std::size_t position = 0; position < all.size();) {
    std::size_t end = position;
    while (end < all.size() && digit_of_base64(all[end]) >= 0) ++end;
    if (end - position >= 4) {
      std::uint32_t bits = 0;
      std::size_t const first = position + skipped;
      for (std::size_t i = first; i < end; ++i) {
        bits = bits << 6U | static_cast<std::uint32_t>(digit_of_base64(all[i]));
        std::size_t const place = (i - first) % 4;
        if (place != 0) out.add(static_cast<char>(bits >> (6 - 2 * place) & 0xffU), text.begin[i - 1], text.end[i]);
      }
    }
    if (end - position < 4 || end < all.size()) add_border(out, text, std::min(end, all.size() - 1));
    position = std::max(end, position + 1);
  }
  return out;
}

/// The ways to read a text. In those that are `coded` a short word may mean a few bytes by chance.
template <class Read>
void each_reading(std::string_view text, Read const& read) {
  auto const give = [&](plain_text one, bool is_coded) {
    one.characters = folded(std::move(one.characters));
    read(one, is_coded);
  };
  plain_text const as_is = as_it_is(text);
  give(as_is, false);
  plain_text const unescaped = without_escapes(as_is, dialect::c_and_json);
  if (text.find_first_of("%\\&=") != std::string_view::npos) {
    give(unescaped, false);
    give(without_escapes(as_is, dialect::lua_and_dns), false);
  }
  auto const give_code = [&](plain_text one) { give(without_escapes(std::move(one), dialect::c_and_json), true); };
  for (std::size_t skipped = 0; skipped < 2; ++skipped) give_code(hexadecimal(as_is, skipped));
  for (int const base : {8, 10}) give_code(list_of_numbers(as_is, base));
  for (std::size_t skipped = 0; skipped < 4; ++skipped) give_code(base64(unescaped, skipped));
}

/// The spellings of a secret that a reading of a text may have.
std::vector<std::string> spellings_of(std::string const& secret) {
  std::vector<std::string> all{folded(secret)};
  for (dialect const d : dialects) {
    std::string one = folded(without_escapes(as_it_is(secret), d).characters);
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
  }
  return all;
}

/// A common word does not prove that it was copied from a secret: our own lines consist of them.
bool is_unmistakable(std::string_view characters) {
  bool const only_letters =
      std::all_of(characters.begin(), characters.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return characters.size() >= (only_letters ? 16U : 8U);
}

/// All secrets of the process. What one client has sent may come back to another one.
class known_secrets {
 public:
  void add(std::string const& bytes) {
    std::lock_guard const guard{mutex_};
    if (++counts_[bytes] > 1) return;
    for (std::string const& one : spellings_of(bytes)) index(one, 1);
    any_ = true;
  }

  void gone(std::string const& bytes) {
    std::lock_guard const guard{mutex_};
    // A word with other common meanings is hidden no longer than necessary.
    if (!is_unmistakable(folded(bytes))) return forget(bytes);
    gone_.push_back(bytes);
    if (gone_.size() <= most_gone) return;
    forget(gone_.front());
    gone_.pop_front();
  }

  std::string hide(std::string_view text, written_by by) {
    if (!any_ || text.empty()) return std::string{text};
    std::vector<bool> hidden(text.size());
    each_reading(text, [&](plain_text const& here, bool is_coded) {
      std::vector<bool> found(here.characters.size());
      {
        std::lock_guard const guard{mutex_};
        find_pieces(here.characters, by, found);
        if (by == written_by::others) find_beginnings(here.characters, is_coded ? 3 : 1, found);
      }
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (!found[i]) continue;
        std::size_t const from = here.begin[i];
        while (i + 1 < found.size() && found[i + 1]) ++i;
        std::fill(hidden.begin() + static_cast<std::ptrdiff_t>(from),
                  hidden.begin() + static_cast<std::ptrdiff_t>(here.end[i]), true);
      }
    });
    std::string out;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      if (!hidden[i]) out += text[i];
      else if (i == 0 || !hidden[i - 1]) out += mask;
    }
    return out;
  }

 private:
  /// The characters of a gram, whether only other people's words are searched for it, and how many characters in a row
  /// are enough.
  using key = std::uint64_t;
  static constexpr std::size_t of_any = 0;  // instead of that number: of any secret
  static key key_of(std::string_view gram, bool unmistakable, std::size_t need) {
    key k = need << 1U | (unmistakable ? 1U : 0U);
    for (char const c : gram) k = k << 8U | static_cast<unsigned char>(c);
    return k;
  }
  void forget(std::string const& bytes) {
    auto const found = counts_.find(bytes);
    if (--found->second != 0) return;
    for (std::string const& one : spellings_of(bytes)) index(one, -1);
    counts_.erase(found);
  }

  static std::size_t need_of(std::size_t size, bool unmistakable) {
    return std::min(size, unmistakable ? enough_in_ours : enough);
  }

  void index(std::string const& characters, int by) {
    if (characters.empty()) return;
    auto const place = std::lower_bound(in_order_.begin(), in_order_.end(), characters);
    if (by > 0) in_order_.insert(place, characters);
    else in_order_.erase(place);
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
    auto const found = grams_.try_emplace(k, 0).first;
    if ((found->second += by) == 0) grams_.erase(found);
  }

  /// Runs of characters each four of which are in a secret.
  void find_pieces(std::string_view text, written_by by, std::vector<bool>& hidden) const {
    bool const unmistakable = by == written_by::us;
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
        std::fill(hidden.begin() + static_cast<std::ptrdiff_t>(end - run),
                  hidden.begin() + static_cast<std::ptrdiff_t>(end), true);
      }
    }
  }

  /// Finds short secrets that appear alone, and beginnings of secrets (`least` characters or more) up to a quotation
  /// mark or the end of the text.
  void find_beginnings(std::string_view text, std::size_t least, std::vector<bool>& hidden) const {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i > 0 && is_of_word(text[i - 1])) continue;
      bool const is_quoted = i > 0 && is_quotation_mark(text[i - 1]);
      std::size_t found = 0;
      auto first = in_order_.begin(), last = in_order_.end();  // those that begin with the `size` characters from here
      for (std::size_t size = 0;; ++size) {
        bool const at_end = i + size == text.size();
        bool const stands_alone = size != 0 && first->size() == size && (at_end || !is_of_word(text[i + size]));
        bool const is_cut =
            is_quoted ? size >= 2 && (at_end || is_quotation_mark(text[i + size])) : size >= 3 && at_end;
        if (stands_alone || is_cut) found = size;
        if (at_end) break;
        auto const next = [&](std::string const& one) { return static_cast<unsigned char>(one[size]); };
        auto const here = static_cast<unsigned char>(text[i + size]);
        first = std::partition_point(first, last,
                                     [&](std::string const& one) { return one.size() <= size || next(one) < here; });
        last = std::partition_point(first, last, [&](std::string const& one) { return next(one) == here; });
        if (first == last) break;
      }
      if (found >= least) std::fill_n(hidden.begin() + static_cast<std::ptrdiff_t>(i), found, true);
    }
  }

  fork_safe_mutex mutex_;
  std::atomic<bool> any_ = false;
  std::unordered_map<std::string, std::size_t> counts_;
  std::deque<std::string> gone_;
  std::unordered_map<key, int> grams_;
  std::vector<std::string> in_order_;
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

std::string without_secrets(std::string_view text, written_by by) { return all_secrets().hide(text, by); }

}  // namespace conch
