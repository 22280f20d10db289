// From a unified diff to an entry: the smallest whole expression or statement that the diff changes and that the file
// has only once.
#include "overlay/overlay.hpp"
#include "overlay/tokens.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

namespace conch::overlay {

namespace {

[[noreturn]] void fail(std::string why) { throw errors{{std::move(why)}}; }

using strings = std::vector<std::string>;

strings lines_of(std::string_view text) {
  strings all;
  while (!text.empty()) {
    std::size_t const end = std::min(text.find('\n'), text.size());
    all.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::string joined(strings const& lines) {
  std::string text;
  for (std::string const& line : lines) text += line + "\n";
  return text;
}

/// One run of removed and added lines.
struct place {
  std::string file;
  std::size_t line = 0;  // of the first that is removed, or before which the others are added
  strings removed, added;
};

std::size_t number_in(std::string_view hunk) {
  std::size_t n = 0;
  std::size_t const at = std::min(hunk.find('-') + 1, hunk.size());
  std::from_chars(hunk.data() + at, hunk.data() + hunk.size(), n);
  return n;
}

place place_of(std::string_view diff) {
  std::optional<place> found;
  std::string file;
  std::size_t line = 0;
  bool in_hunk = false, in_run = false;
  for (std::string const& one : lines_of(diff)) {
    if (one.starts_with("diff ") || one.starts_with("--- ")) {
      in_hunk = in_run = false;
    } else if (!in_hunk && one.starts_with("+++ ")) {
      file = one.substr(4, one.find('\t') == std::string::npos ? std::string::npos : one.find('\t') - 4);
      if (file.starts_with("b/")) file.erase(0, 2);
    } else if (one.starts_with("@@ ")) {
      line = number_in(one);
      in_hunk = true;
      in_run = false;
    } else if (in_hunk && (one.starts_with("-") || one.starts_with("+"))) {
      if (!in_run && found) fail("the diff changes more than one place");
      if (!in_run) found = place{file, line, {}, {}};
      in_run = true;
      (one[0] == '-' ? found->removed : found->added).push_back(one.substr(1));
      if (one[0] == '-') ++line;
    } else if (in_hunk && !one.starts_with("\\")) {
      in_run = false;
      ++line;
    }
  }
  if (!found) fail("this is not a unified diff that changes a line");
  return *found;
}

class edit {
 public:
  edit(std::string_view before, std::string_view after)
      : before_{before},
        after_{after},
        old_{tokens_of(before)},
        new_{tokens_of(after)},
        grows_{new_.size() - old_.size()} {}

  /// The entry for what differs.
  bool find(fault& f) {
    auto const same = [](token const& a, token const& b) { return a.text == b.text; };
    auto const begin = std::mismatch(old_.begin(), old_.end(), new_.begin(), new_.end(), same);
    auto const from = static_cast<std::size_t>(begin.first - old_.begin());
    if (from == old_.size() && from == new_.size()) fail("the diff changes only blanks or comments");
    std::size_t behind = 0;
    std::size_t const most = std::min(old_.size(), new_.size()) - from;
    while (behind < most && same(old_[old_.size() - 1 - behind], new_[new_.size() - 1 - behind])) ++behind;
    core_ = balanced({from, old_.size() - behind});
    for (bool const in_function : {false, true}) {
      if (find_expression(f, in_function) || find_statements(f, in_function)) return true;
    }
    return false;
  }

  /// The same for whole statements that are only added, before the token `at`.
  bool find_added(fault& f, std::size_t at, std::size_t count, bool in_function) const {
    static constexpr std::string_view no_anchor[] = {"}", "else", "case", "default"};
    bool const is_behind = at >= old_.size() || std::any_of(std::begin(no_anchor), std::end(no_anchor),
                                                            [&](auto s) { return old_[at].is(s); });
    span anchor{at, at};
    for (int tries = 0; tries < 8; ++tries) {
      if (is_behind) anchor.from = start_of_statement(anchor.from - 1);
      else anchor.to = end_of_line_or_statement(anchor.to);
      if (old_[anchor.to - 1].is("}") && !is_balanced(olds(anchor))) return false;
      if (!is_once(anchor, in_function)) continue;
      f.function = in_function ? heading() : std::string{};
      f.text = text_of(anchor);
      std::size_t const first = is_behind ? new_[anchor.from].at : new_[at].at;
      std::size_t const last = (is_behind ? at + count : anchor.to + count) - 1;
      f.replacement = std::string{after_.substr(first, new_[last].end() - first)};
      return true;
    }
    return false;
  }

  /// The same for whole statements that are only removed, the tokens [from, from + count).
  bool find_removed(fault& f, std::size_t from, std::size_t count, bool in_function) const {
    span behind{from, from + count}, before = behind;
    for (int more = 0; more < 4; ++more) {
      if (are_whole(behind) && is_once(behind, in_function)) return take(f, behind, in_function);
      if (are_whole(before) && is_once(before, in_function)) return take(f, before, in_function);
      behind.to = end_of_statement(behind.to);
      if (before.from > 0) before.from = start_of_statement(before.from - 1);
    }
    return false;
  }

  std::vector<token> const& before() const noexcept { return old_; }
  void look_at(span s) noexcept { core_ = s; }

 private:
  bool find_expression(fault& f, bool in_function) const {
    span at = core_;
    for (int outward = 0; outward < 6; ++outward) {
      for (int level = 0; level < 3; ++level) {
        span const one = grown(at, level);
        if (is_expression(one, level) && is_once(one, in_function)) return take(f, one, in_function);
      }
      span const widest = grown(at, 2);
      std::optional<span> const around = brackets_around(widest);
      if (!around || around->from == 0 || is_keyword(old_[around->from - 1])) return false;
      at = *around;
    }
    return false;
  }

  bool find_statements(fault& f, bool in_function) const {
    span at{start_of_statement(core_.from), 0};
    at.to = end_of_statement(at.from);
    for (int outward = 0; outward < 4; ++outward) {
      if (at.to < core_.to) return false;
      span behind = at, before = at;
      for (int more = 0; more < 4; ++more) {
        if (are_whole(behind) && is_once(behind, in_function)) return take(f, behind, in_function);
        if (are_whole(before) && is_once(before, in_function)) return take(f, before, in_function);
        behind.to = end_of_statement(behind.to);
        if (before.from > 0) before.from = start_of_statement(before.from - 1);
      }
      std::optional<span> const around = brackets_around(at);
      if (!around) return false;
      at.from = start_of_statement(around->from);
      at.to = end_of_statement(at.from);
    }
    return false;
  }

  bool take(fault& f, span s, bool in_function) const {
    f.function = in_function ? heading() : std::string{};
    f.text = text_of(s);
    span const n{s.from, s.to + grows_};
    f.replacement = n.from == n.to
                        ? std::string{}
                        : std::string{after_.substr(new_[n.from].at, new_[n.to - 1].end() - new_[n.from].at)};
    return true;
  }

  std::string text_of(span s) const {
    return std::string{before_.substr(old_[s.from].at, old_[s.to - 1].end() - old_[s.from].at)};
  }
  std::vector<token> olds(span s) const { return part(old_, s.from, s.to); }
  std::vector<token> news(span s) const { return part(new_, s.from, s.to + grows_); }
  static std::vector<token> part(std::vector<token> const& all, std::size_t from, std::size_t to) {
    return {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(to)};
  }
  /// Only what is short enough to read: else it is looked for in its function.
  bool is_once(span s, bool in_function) const {
    if (!in_function) return s.to - s.from <= most_tokens && places_of(olds(s), old_).size() == 1;
    if (heading().empty()) return false;
    span const body = body_of(old_, places_of(tokens_of(heading()), old_)[0]);
    auto places = places_of(olds(s), old_);
    std::erase_if(places, [&](std::size_t at) { return at < body.from || at >= body.to; });
    return places.size() == 1;
  }
  /// The heading of the function that is changed, long enough to tell it from all others; empty: there is none.
  std::string heading() const {
    static constexpr std::string_view outer[] = {"namespace", "class", "struct", "union", "enum"};
    std::optional<span> around = brackets_around(core_);
    std::size_t body = old_.size();
    for (; around; around = brackets_around(*around)) {
      if (!old_[around->from].is("{") || !is_block(around->from)) continue;
      std::size_t const from = start_of_statement(around->from);
      bool const is_outer = std::any_of(std::begin(outer), std::end(outer), [&](auto s) { return old_[from].is(s); });
      if (!is_outer) body = from;
    }
    if (body == old_.size()) return {};
    std::size_t open = body;
    while (open < old_.size() && !old_[open].is("(")) ++open;
    std::size_t from = open - 1;
    while (from > body && old_[from - 1].is("::")) from -= 2;
    for (std::size_t const to : {open, closing(open) + 1}) {
      if (places_of(olds({from, to}), old_).size() == 1) return text_of({from, to});
    }
    return {};
  }
  span balanced(span s) const {
    int depth = 0, least = 0;
    for (std::size_t i = s.from; i < s.to; ++i) {
      token const& t = old_[i];
      if (t.is("(") || t.is("[") || t.is("{")) ++depth;
      if (t.is(")") || t.is("]") || t.is("}")) least = std::min(least, --depth);
    }
    for (int open = depth - least; open > 0 && s.to < old_.size(); ++s.to) {
      token const& t = old_[s.to];
      if (t.is("(") || t.is("[") || t.is("{")) ++open;
      if (t.is(")") || t.is("]") || t.is("}")) --open;
    }
    for (int open = -least; open > 0 && s.from > 0; --s.from) {
      token const& t = old_[s.from - 1];
      if (t.is(")") || t.is("]") || t.is("}")) ++open;
      if (t.is("(") || t.is("[") || t.is("{")) --open;
    }
    return s;
  }

  static bool is_keyword(token const& t) {
    return t.is("if") || t.is("while") || t.is("for") || t.is("switch") || t.is("catch");
  }

  /// What an operand ends at: with a level of 0 `&&` and `||` too, with less than 2 the parts of `? :`.
  static bool ends_operand(token const& t, int level) {
    static constexpr std::string_view all[] = {",", ";", "=", "return", "+=", "-=", "|=", "&=", "throw", "else"};
    if (std::any_of(std::begin(all), std::end(all), [&](auto s) { return t.is(s); })) return true;
    if (level < 2 && (t.is("?") || t.is(":"))) return true;
    return level < 1 && (t.is("&&") || t.is("||"));
  }

  span grown(span s, int level) const {
    while (s.from > 0 && !ends_operand(old_[s.from - 1], level)) {
      token const& t = old_[s.from - 1];
      if (t.is("(") || t.is("[") || t.is("{")) break;
      if (t.is("}") && is_block(opening(s.from - 1))) break;
      s.from = t.is(")") || t.is("]") || t.is("}") ? opening(s.from - 1) : s.from - 1;
    }
    while (s.to < old_.size() && !ends_operand(old_[s.to], level)) {
      token const& t = old_[s.to];
      if (t.is(")") || t.is("]") || t.is("}")) break;
      if (t.is("{") && is_block(s.to)) break;
      s.to = t.is("(") || t.is("[") || t.is("{") ? closing(s.to) + 1 : s.to + 1;
    }
    return s;
  }

  std::size_t opening(std::size_t at) const { return opening_of(old_, at); }
  std::size_t closing(std::size_t at) const { return closing_of(old_, at); }
  bool is_block(std::size_t brace) const { return overlay::is_block(old_, brace); }

  /// With the brackets in which it stands.
  std::optional<span> brackets_around(span s) const {
    int depth = 0;
    std::size_t from = s.from;
    for (; from > 0; --from) {
      token const& t = old_[from - 1];
      if (t.is(")") || t.is("]") || t.is("}")) ++depth;
      if ((t.is("(") || t.is("[") || t.is("{")) && depth-- == 0) break;
    }
    if (from == 0) return std::nullopt;
    return span{from - 1, closing(from - 1) + 1};
  }

  std::size_t start_of_statement(std::size_t at) const {
    while (at > 0) {
      token const& t = old_[at - 1];
      if (t.is(";") || t.is("{") || (t.is(":") && !has_question(at - 1)) || (t.is("}") && is_block(opening(at - 1))))
        break;
      at = t.is(")") || t.is("]") || t.is("}") ? opening(at - 1) : at - 1;
    }
    return at;
  }
  /// Is this colon that of `? :`?
  bool has_question(std::size_t at) const {
    for (; at > 0 && !old_[at].is(";") && !old_[at].is("{") && !old_[at].is("case"); --at) {
      if (old_[at].is("?")) return true;
    }
    return false;
  }
  std::size_t end_of_statement(std::size_t at) const {
    if (at >= old_.size()) return at;
    if (is_keyword(old_[at]) && at + 1 < old_.size()) {
      std::size_t end = end_of_statement(closing(at + 1) + 1);
      if (end < old_.size() && old_[end].is("else")) end = end_of_statement(end + 1);
      return end;
    }
    if (old_[at].is("{")) return closing(at) + 1;
    while (at < old_.size() && !old_[at].is(";") && !old_[at].is("}"))
      at = old_[at].is("(") || old_[at].is("{") ? closing(at) + 1 : at + 1;
    return std::min(at + 1, old_.size());
  }
  std::size_t end_of_line_or_statement(std::size_t at) const {
    while (at < old_.size() && !old_[at].is(";") && !old_[at].is("}")) {
      if (old_[at].is("{") && is_block(at)) break;
      at = old_[at].is("(") || old_[at].is("{") ? closing(at) + 1 : at + 1;
    }
    return std::min(at + 1, old_.size());
  }

  bool is_expression(span s, int level) const {
    auto const before = olds(s), after = news(s);
    if (before.empty() || after.empty() || !is_balanced(before) || !is_balanced(after)) return false;
    if (before.front().is("{") || after.front().is("{")) return false;
    if (has(before, ";") || has(after, ";") || is_keyword(before.front()) || s.from == 0 || s.to >= old_.size())
      return false;
    // One that is a statement by itself is none here, nor is what an assignment would take apart.
    if (begins_statement(s.from) && old_[s.to].is(";")) return false;
    if (old_[s.to].is("=") || old_[s.to].is("+=") || old_[s.to].is("{") || old_[s.to].is("-=")) return false;
    bool const beside =
        old_[s.from - 1].is("&&") || old_[s.to].is("&&") || old_[s.from - 1].is("||") || old_[s.to].is("||");
    if (level == 0 && beside && (has(before, "||") || has(after, "?") || has(before, "?"))) return false;
    return !(level < 2 && (has(before, "=") || has(after, "=")));
  }
  bool begins_statement(std::size_t at) const {
    token const& t = old_[at - 1];
    return t.is(";") || t.is("{") || t.is("}") || t.is("else") ||
           (t.is(")") && is_keyword(old_[std::max<std::size_t>(opening(at - 1), 1) - 1]));
  }
  /// Outside of brackets.
  static bool has(std::vector<token> const& all, std::string_view what) {
    int depth = 0;
    for (token const& t : all) {
      if (t.is(")") || t.is("]") || t.is("}")) --depth;
      if (depth == 0 && t.is(what)) return true;
      if (t.is("(") || t.is("[") || t.is("{")) ++depth;
    }
    return false;
  }

  bool are_whole(span s) const {
    auto const before = olds(s), after = news(s);
    if (!are_statements(before) || (!after.empty() && !are_statements(after)) || !is_balanced(before) ||
        !is_balanced(after))
      return false;
    for (std::size_t at = s.from; at < s.to; at = end_of_statement(at)) {
      if (is_declaration(at)) return false;
    }
    return s.from == 0 || !old_[s.from - 1].is("else");
  }
  /// `type name = ...;` and the like: what follows may need it.
  bool is_declaration(std::size_t at) const {
    auto const is_word = [&](std::size_t i) {
      char const c = i < old_.size() ? old_[i].text[0] : ' ';
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    static constexpr std::string_view others[] = {"return", "throw",    "delete",    "if",    "for",      "while",
                                                  "switch", "co_await", "co_return", "break", "continue", "else"};
    if (!is_word(at) || std::any_of(std::begin(others), std::end(others), [&](auto s) { return old_[at].is(s); }))
      return false;
    for (std::size_t i = at + 1; i < old_.size() && !old_[i].is(";") && !old_[i].is("=") && !old_[i].is("("); ++i) {
      if (is_word(i) && (is_word(i - 1) || old_[i - 1].is("&") || old_[i - 1].is("*") || old_[i - 1].is(">")))
        return true;
    }
    return false;
  }

  static constexpr std::size_t most_tokens = 60;

  std::string_view before_, after_;
  std::vector<token> old_, new_;
  std::size_t grows_;  // may wrap round
  span core_;
};

}  // namespace

fault fault_of_diff(std::string_view name, std::string_view diff,
                    std::function<std::string(std::string const&)> const& source) {
  place const p = place_of(diff);
  std::string const before = source(p.file);
  strings lines = lines_of(before);
  std::size_t const first = p.line - 1;
  if (first + p.removed.size() > lines.size() ||
      !std::equal(p.removed.begin(), p.removed.end(), lines.begin() + static_cast<std::ptrdiff_t>(first)))
    fail("the diff does not fit " + p.file);
  std::size_t offset = 0;
  for (std::size_t i = 0; i < first; ++i) offset += lines[i].size() + 1;
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(first),
              lines.begin() + static_cast<std::ptrdiff_t>(first + p.removed.size()));
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(first), p.added.begin(), p.added.end());
  std::string const after = joined(lines);

  fault f{std::string{name}, p.file, {}, {}, {}, "the diff"};
  edit c{before, after};
  std::string const new_text = joined(p.added), old_text = joined(p.removed);
  std::vector<token> const added = tokens_of(new_text), removed = tokens_of(old_text);
  auto const whole = [](std::vector<token> const& all) { return are_statements(all) && is_balanced(all); };
  auto const next = std::find_if(c.before().begin(), c.before().end(), [&](token const& t) { return t.at >= offset; });
  auto const at = static_cast<std::size_t>(next - c.before().begin());
  bool found = false;
  c.look_at({at, at + removed.size()});
  for (bool const in_function : {false, true}) {
    if (removed.empty() && whole(added)) found = found || c.find_added(f, at, added.size(), in_function);
    if (added.empty() && whole(removed)) found = found || c.find_removed(f, at, removed.size(), in_function);
  }
  found = found || c.find(f);
  if (!found)
    fail("no whole expression or statement of " + p.file +
         " that is there only once has this change; write the entry by hand");
  f.text = in_lines(f.text);
  f.replacement = in_lines(f.replacement);
  with_faults(before, {f}, p.file);
  return f;
}

}  // namespace conch::overlay
