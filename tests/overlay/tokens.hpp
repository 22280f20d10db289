// C++ as the generator looks at it: without blanks and comments.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace conch::overlay {

struct token {
  std::string_view text;
  std::size_t at = 0;  // in the source

  std::size_t end() const noexcept { return at + text.size(); }
  bool is(std::string_view s) const noexcept { return text == s; }
};

std::vector<token> tokens_of(std::string_view source);

/// Where `part` begins in `all`: the numbers of tokens.
std::vector<std::size_t> places_of(std::vector<token> const& part, std::vector<token> const& all);

/// Are all brackets in it closed, and none that it has not opened?
bool is_balanced(std::vector<token> const& all);

/// Statements end with a semicolon, or with a brace that has a semicolon before it. All else is an expression.
bool are_statements(std::vector<token> const& all);

std::size_t opening_of(std::vector<token> const& all, std::size_t close);
std::size_t closing_of(std::vector<token> const& all, std::size_t open);

/// Does this brace open statements, and not the values of an object?
bool is_block(std::vector<token> const& all, std::size_t brace);

/// Some tokens, [from, to).
struct span {
  std::size_t from = 0, to = 0;
};

/// The body of the function whose heading these tokens are, at `at`.
span body_of(std::vector<token> const& all, std::size_t at);

/// Without comments, and without blanks at the ends of the lines.
std::string in_lines(std::string_view source);

/// On one line and without comments.
std::string on_one_line(std::string_view source);

std::size_t line_of(std::string_view source, std::size_t at);

}  // namespace conch::overlay
