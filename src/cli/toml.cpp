// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/toml.hpp"

#include "cli/exit_code.hpp"

#include <algorithm>
#include <utility>

namespace conch::cli {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t'; }

bool is_of_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class line_reader {
 public:
  line_reader(std::string_view text, std::string where) : rest_{text}, where_{std::move(where)} {}

  [[noreturn]] void refuse(std::string const& why) const { throw failure{exit_code::wrong_config, where_ + why}; }

  void skip_spaces() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }
  bool at_end() const { return rest_.empty() || rest_.front() == '#'; }

  std::string key() {
    auto const end = std::find_if_not(rest_.begin(), rest_.end(), is_of_key);
    std::string found{rest_.begin(), end};
    if (found.empty())
      refuse(rest_.front() == '[' ? "tables are not supported: use lines KEY = VALUE" : "expected a key");
    rest_.remove_prefix(found.size());
    skip_spaces();
    if (rest_.empty() || rest_.front() != '=') refuse("expected '=' after the key " + found);
    rest_.remove_prefix(1);
    skip_spaces();
    return found;
  }

  std::string value() {
    if (rest_.empty()) refuse("the value is missing");
    char const first = rest_.front();
    if (first != '"' && first != '\'') return bare_word();
    rest_.remove_prefix(1);
    std::string found;
    while (!rest_.empty() && rest_.front() != first) {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\\' && first == '"') c = escaped();
      found += c;
    }
    if (rest_.empty()) refuse("the closing quotation mark is missing");
    rest_.remove_prefix(1);
    return found;
  }

 private:
  char escaped() {
    if (rest_.empty()) refuse("the closing quotation mark is missing");
    char const c = rest_.front();
    rest_.remove_prefix(1);
    switch (c) {
      case '"':
      case '\\': return c;
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      default:
        refuse(
            "in double quotation marks '\\' must be followed by one of \" \\ n r t; single quotation marks take the "
            "text as it is");
    }
  }

  std::string bare_word() {
    auto const end = std::find_if(rest_.begin(), rest_.end(), [](char c) { return is_space(c) || c == '#'; });
    std::string found{rest_.begin(), end};
    bool const number = !found.empty() && found.find_first_not_of("0123456789") == std::string::npos;
    if (found != "true" && found != "false" && !number) refuse("a text needs quotation marks: KEY = \"TEXT\"");
    rest_.remove_prefix(found.size());
    return found;
  }

  std::string_view rest_;
  std::string where_;
};

}  // namespace

std::vector<toml_entry> parse_toml(std::string_view text, std::string const& name_of_file) {
  std::vector<toml_entry> all;
  for (std::size_t number = 1; !text.empty(); ++number) {
    auto const end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line_reader reader{line, name_of_file + ':' + std::to_string(number) + ": "};
    reader.skip_spaces();
    if (reader.at_end()) continue;
    std::string key = reader.key();
    std::string value = reader.value();
    reader.skip_spaces();
    if (!reader.at_end()) reader.refuse("unexpected text after the value of " + key);
    if (std::any_of(all.begin(), all.end(), [&](toml_entry const& one) { return one.key == key; }))
      reader.refuse("duplicate key " + key);
    all.push_back({std::move(key), std::move(value), number});
  }
  return all;
}

}  // namespace conch::cli
