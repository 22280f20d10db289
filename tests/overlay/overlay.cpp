#include "overlay/overlay.hpp"

#include "overlay/tokens.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace conch::overlay {

namespace {

constexpr std::string_view always = "always";

bool is_name(std::string_view s) {
  return !s.empty() && s != "none" && std::all_of(s.begin(), s.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

std::string condition(fault const& f) { return "CONCH_FAULT(" + f.name + ")"; }

bool ends_statement(token const& t) { return t.is(";") || t.is("}"); }

/// How a fault is put in.
enum class form { instead, expression, statements, before, behind };

struct change {
  fault const* of = nullptr;
  form as = form::expression;
  std::size_t from = 0, to = 0;  // the text, in the source
  std::string added;             // what stands there instead, or as well
};

/// What the replacement has before the text, if it is that and the text.
std::optional<std::string> added_before(std::vector<token> const& text, std::vector<token> const& all,
                                        std::string_view replacement) {
  if (all.size() <= text.size()) return std::nullopt;
  std::size_t const more = all.size() - text.size();
  auto const same = [](token const& a, token const& b) { return a.text == b.text; };
  if (!ends_statement(all[more - 1]) ||
      !std::equal(text.begin(), text.end(), all.end() - static_cast<std::ptrdiff_t>(text.size()), same))
    return std::nullopt;
  return on_one_line(replacement.substr(0, all[more].at));
}

std::optional<std::string> added_behind(std::vector<token> const& text, std::vector<token> const& all,
                                        std::string_view replacement) {
  if (all.size() <= text.size()) return std::nullopt;
  auto const same = [](token const& a, token const& b) { return a.text == b.text; };
  if (!ends_statement(all.back()) || !ends_statement(text.back()) ||
      !std::equal(text.begin(), text.end(), all.begin(), same))
    return std::nullopt;
  return on_one_line(replacement.substr(all[text.size()].at));
}

class maker {
 public:
  explicit maker(std::string_view source) : source_{source}, tokens_{tokens_of(source)} {}

  /// Says what is wrong, or nothing.
  std::string add(fault const& f) {
    std::vector<token> const text = tokens_of(f.text), all = tokens_of(f.replacement);
    if (text.empty()) return "has no text";
    span in{0, tokens_.size()};
    if (!f.function.empty()) {
      auto const headings = places_of(tokens_of(f.function), tokens_);
      if (headings.size() != 1) return f.function + " is " + how_often(headings) + " in " + f.file;
      in = body_of(tokens_, headings[0]);
    }
    std::string const there = f.file + (f.function.empty() ? "" : ", " + f.function) + ": " + on_one_line(f.text);
    auto places = places_of(text, tokens_);
    std::erase_if(places, [&](std::size_t at) { return at < in.from || at + text.size() > in.to; });
    if (places.size() != 1) return "its text is " + how_often(places) + " in " + there;
    std::size_t const first = places[0];
    change c{&f, form::expression, tokens_[first].at, tokens_[first + text.size() - 1].end(),
             on_one_line(f.replacement)};
    // Else the text is all that an `if` or a loop without braces does, and what is added would not belong to it.
    bool const begins =
        first == 0 || ends_statement(tokens_[first - 1]) || tokens_[first - 1].is("{") || tokens_[first - 1].is(":");
    if (f.name == always) {
      c.as = form::instead;
    } else if (auto more = added_before(text, all, f.replacement); more && begins) {
      c.as = form::before;
      c.added = *more;
    } else if (more = added_behind(text, all, f.replacement); more && begins) {
      c.as = form::behind;
      c.added = *more;
    } else if (are_statements(text)) {
      c.as = form::statements;
    } else if (all.empty()) {
      return "its text is not a statement, so its replacement cannot be empty: " + on_one_line(f.text);
    } else if (are_statements(all)) {
      return "its text is an expression, its replacement is not: " + on_one_line(f.text);
    }
    bool const whole = c.as == form::expression || c.as == form::statements;
    if (whole && (!is_balanced(text) || !is_balanced(all)))
      return "its brackets are not closed: " + on_one_line(f.text);
    changes_.push_back(std::move(c));
    return {};
  }

  /// With the lines, if it is there.
  std::string how_often(std::vector<std::size_t> const& places) const {
    if (places.empty()) return "nowhere";
    std::string text = places.size() == 2 ? "twice" : std::to_string(places.size()) + " times";
    for (std::size_t i = 0; i < places.size(); ++i)
      text += (i == 0 ? " (lines " : ", ") + std::to_string(line_of(source_, tokens_[places[i]].at));
    return text + ")";
  }

  /// The longer ones first: a text may be part of another's.
  std::string sort() {
    std::stable_sort(changes_.begin(), changes_.end(), [](change const& a, change const& b) {
      return std::pair{a.from, source_end - a.to} < std::pair{b.from, source_end - b.to};
    });
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      for (std::size_t k = i + 1; k < changes_.size() && changes_[k].from < changes_[i].to; ++k) {
        if (changes_[k].to > changes_[i].to)
          return changes_[i].of->name + " and " + changes_[k].of->name +
                 " overlap: one text must be part of the other, or apart from it";
      }
    }
    return {};
  }

  std::string made() const {
    std::size_t next = 0;
    return made(0, source_.size(), next);
  }

 private:
  static constexpr std::size_t source_end = ~std::size_t{0};

  std::string made(std::size_t from, std::size_t to, std::size_t& next) const {
    std::string text;
    while (next < changes_.size() && changes_[next].from < to) {
      change const& c = changes_[next++];
      text += source_.substr(from, c.from - from);
      text += put_in(c, made(c.from, c.to, next));
      from = c.to;
    }
    text += source_.substr(from, to - from);
    return text;
  }

  static std::string put_in(change const& c, std::string const& text) {
    switch (c.as) {
      case form::instead: return c.added;
      case form::expression: return "(" + condition(*c.of) + " ? (" + c.added + ") : (" + text + "))";
      case form::before: return "if (" + condition(*c.of) + ") { " + c.added + " } " + text;
      case form::behind: return text + " if (" + condition(*c.of) + ") { " + c.added + " }";
      case form::statements:
        if (c.added.empty()) return "{ if (!" + condition(*c.of) + ") { " + text + " } }";
        return "{ if (" + condition(*c.of) + ") { " + c.added + " } else { " + text + " } }";
    }
    return {};
  }

  std::string_view source_;
  std::vector<token> tokens_;
  std::vector<change> changes_;
};

std::string_view without_blanks(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back())) != 0) s.remove_suffix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front())) != 0) s.remove_prefix(1);
  return s;
}

void add_line(std::string& to, std::string_view line) {
  if (!to.empty()) to += '\n';
  to += without_blanks(line);
}

}  // namespace

std::vector<fault> read_faults(std::string_view content, std::string_view shown) {
  std::vector<fault> all;
  errors wrong;
  bool replaces = false;
  std::size_t number = 0;
  while (!content.empty()) {
    std::size_t const end = std::min(content.find('\n'), content.size());
    std::string_view const line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    std::string const where = std::string{shown} + ":" + std::to_string(++number);
    if (without_blanks(line).empty() || line[0] == '#') continue;
    if (line[0] == '@' && !all.empty() && all.back().function.empty() && all.back().text.empty()) {
      all.back().function = without_blanks(line.substr(1));
      continue;
    }
    if (line[0] == '-' || line[0] == '+' || line[0] == '@') {
      if (all.empty() || line[0] == '@' || (line[0] == '-' && replaces)) {
        wrong.lines.push_back(where + ": expected NAME FILE before this line");
        continue;
      }
      replaces = line[0] == '+';
      add_line(replaces ? all.back().replacement : all.back().text, line.substr(1));
      continue;
    }
    std::size_t const blank = std::min(line.find(' '), line.size());
    fault f{std::string{line.substr(0, blank)}, std::string{without_blanks(line.substr(blank))}, {}, {}, {}, where};
    if (!is_name(f.name) || f.file.empty() || f.file.find(' ') != std::string::npos)
      wrong.lines.push_back(where + ": expected NAME FILE, the name in lower case: " + std::string{line});
    all.push_back(std::move(f));
    replaces = false;
  }
  if (!wrong.lines.empty()) throw wrong;
  return all;
}

std::string written(fault const& f) {
  std::string text = f.name + " " + f.file + "\n";
  if (!f.function.empty()) text += "@ " + f.function + "\n";
  auto const add = [&](char sign, std::string_view lines) {
    while (!lines.empty()) {
      std::size_t const end = std::min(lines.find('\n'), lines.size());
      text += std::string{sign} + " " + std::string{without_blanks(lines.substr(0, end))} + "\n";
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
  };
  add('-', f.text);
  add('+', f.replacement);
  return text;
}

std::string with_faults(std::string_view source, std::vector<fault> const& faults, std::string_view original) {
  maker m{source};
  errors wrong;
  for (fault const& f : faults) {
    if (std::string const why = m.add(f); !why.empty()) wrong.lines.push_back(f.where + ": " + f.name + ": " + why);
  }
  if (std::string const why = m.sort(); !why.empty()) wrong.lines.push_back(std::string{original} + ": " + why);
  if (!wrong.lines.empty()) throw wrong;
  std::string const begin = faults.empty() ? "" : "#include \"engine_mutants.hpp\"\n";
  return begin + "#line 1 \"" + std::string{original} + "\"\n" + m.made();
}

std::string names_header(std::vector<fault> const& faults) {
  std::string text =
      "// Made from tests/sim/mutants/*.faults.\n#pragma once\n\n#include <cstdint>\n\nnamespace conch::sim {\n\n"
      "enum class engine_mutant : std::uint16_t {\n  none,\n";
  std::vector<std::string_view> seen{always};
  for (fault const& f : faults) {
    if (std::find(seen.begin(), seen.end(), f.name) != seen.end()) continue;
    seen.push_back(f.name);
    text += "  " + f.name + ",\n";
  }
  return text +
         "};\n\n/// Of this thread.\nextern constinit thread_local engine_mutant active_engine_mutant;\n\n}  // "
         "namespace conch::sim\n\n"
         "#define CONCH_FAULT(name) (::conch::sim::active_engine_mutant == ::conch::sim::engine_mutant::name)\n";
}

}  // namespace conch::overlay
