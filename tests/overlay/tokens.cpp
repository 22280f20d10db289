#include "overlay/tokens.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

namespace conch::overlay {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Without `>>`, which also ends two lists of template arguments.
constexpr std::array<std::string_view, 20> operators{"<=>", "::", "->", "++", "--", "<<", "<=", ">=", "==", "!=",
                                                     "&&",  "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};

/// The length of the blanks and comments that it begins with.
std::size_t skipped(std::string_view rest) {
  std::size_t at = 0;
  while (at < rest.size()) {
    std::string_view const here = rest.substr(at);
    if (std::isspace(static_cast<unsigned char>(here[0])) != 0) ++at;
    else if (here.starts_with("//")) at += std::min(here.find('\n'), here.size());
    else if (here.starts_with("/*")) at += std::min(here.find("*/", 2), here.size() - 2) + 2;
    else break;
  }
  return at;
}

std::size_t length_of_quoted(std::string_view rest) {
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '\\') ++i;
    else if (rest[i] == rest[0]) return i + 1;
  }
  return rest.size();
}

std::size_t length_of_raw(std::string_view rest) {
  std::size_t const open = rest.find('(');
  if (open == std::string_view::npos) return rest.size();
  std::string const close = ")" + std::string{rest.substr(2, open - 2)} + "\"";
  std::size_t const end = rest.find(close, open);
  return end == std::string_view::npos ? rest.size() : end + close.size();
}

std::size_t length_of_token(std::string_view rest) {
  if (rest.starts_with("R\"")) return length_of_raw(rest);
  if (rest[0] == '"' || rest[0] == '\'') return length_of_quoted(rest);
  if (is_word(rest[0])) {
    bool const is_number = std::isdigit(static_cast<unsigned char>(rest[0])) != 0;
    std::size_t n = 1;
    while (n < rest.size() && (is_word(rest[n]) || (is_number && (rest[n] == '\'' || rest[n] == '.')))) ++n;
    return n;
  }
  auto const one =
      std::find_if(operators.begin(), operators.end(), [&](std::string_view s) { return rest.starts_with(s); });
  return one == operators.end() ? 1 : one->size();
}

}  // namespace

std::vector<token> tokens_of(std::string_view source) {
  std::vector<token> all;
  for (std::size_t at = skipped(source); at < source.size(); at += skipped(source.substr(at))) {
    std::size_t const size = length_of_token(source.substr(at));
    all.push_back({source.substr(at, size), at});
    at += size;
  }
  return all;
}

std::vector<std::size_t> places_of(std::vector<token> const& part, std::vector<token> const& all) {
  std::vector<std::size_t> places;
  if (part.empty()) return places;
  auto const same = [](token const& a, token const& b) { return a.text == b.text; };
  for (auto from = all.begin();; ++from) {
    from = std::search(from, all.end(), part.begin(), part.end(), same);
    if (from == all.end()) return places;
    places.push_back(static_cast<std::size_t>(from - all.begin()));
  }
}

bool is_balanced(std::vector<token> const& all) {
  std::string open;
  for (token const& t : all) {
    if (t.is("(")) open += ')';
    else if (t.is("[")) open += ']';
    else if (t.is("{")) open += '}';
    else if (t.is(")") || t.is("]") || t.is("}")) {
      if (open.empty() || open.back() != t.text[0]) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

bool are_statements(std::vector<token> const& all) {
  if (all.empty()) return false;
  if (all.back().is(";")) return true;
  return all.back().is("}") && std::any_of(all.begin(), all.end(), [](token const& t) { return t.is(";"); });
}

std::size_t opening_of(std::vector<token> const& all, std::size_t at) {
  for (int depth = 0; at > 0; --at) {
    token const& t = all[at];
    if (t.is(")") || t.is("]") || t.is("}")) ++depth;
    if ((t.is("(") || t.is("[") || t.is("{")) && --depth == 0) return at;
  }
  return at;
}

std::size_t closing_of(std::vector<token> const& all, std::size_t at) {
  for (int depth = 0; at < all.size(); ++at) {
    token const& t = all[at];
    if (t.is("(") || t.is("[") || t.is("{")) ++depth;
    if ((t.is(")") || t.is("]") || t.is("}")) && --depth == 0) return at;
  }
  return all.size() - 1;
}

bool is_block(std::vector<token> const& all, std::size_t brace) {
  if (brace == 0) return true;
  static constexpr std::string_view before[] = {")", ";", "{", "}", ":", "else", "do", "const", "noexcept", "try"};
  return std::any_of(std::begin(before), std::end(before), [&](auto s) { return all[brace - 1].is(s); });
}

span body_of(std::vector<token> const& all, std::size_t at) {
  while (at < all.size() && !(all[at].is("{") && is_block(all, at))) ++at;
  return {at, at < all.size() ? closing_of(all, at) + 1 : at};
}

std::string in_lines(std::string_view source) {
  std::string text;
  std::size_t end = 0;
  for (token const& t : tokens_of(source)) {
    if (!text.empty() && t.at != end)
      text += source.substr(end, t.at - end).find('\n') == std::string_view::npos ? ' ' : '\n';
    text += t.text;
    end = t.end();
  }
  return text;
}

std::string on_one_line(std::string_view source) {
  std::string line;
  std::size_t end = 0;
  for (token const& t : tokens_of(source)) {
    if (!line.empty() && t.at != end) line += ' ';
    line += t.text;
    end = t.end();
  }
  return line;
}

std::size_t line_of(std::string_view source, std::size_t at) {
  return 1 + static_cast<std::size_t>(std::count(
                 source.begin(), source.begin() + static_cast<std::ptrdiff_t>(std::min(at, source.size())), '\n'));
}

}  // namespace conch::overlay
