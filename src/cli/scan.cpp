// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/scan.hpp"

#include "cli/cluster.hpp"
#include "cli/exit_code.hpp"

#include <algorithm>

namespace conch::cli {

namespace {

std::string unescaped(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string_view const code = text.substr(i, 3);
    bool const escaped = code == "%25" || code == "%7D";
    name += code == "%25" ? '%' : code == "%7D" ? '}' : text[i];
    if (escaped) i += 2;
  }
  return name;
}

/// What begins a pattern and stands for one byte of a name.
struct one_byte {
  std::size_t size = 1;  // in the pattern
  bool fits = false;
};

/// `pattern` begins with '['.
one_byte match_set(std::string_view pattern, char c) {
  auto const byte = [](char b) { return static_cast<unsigned char>(b); };
  std::size_t at = 1;
  bool const negated = pattern.substr(at, 1) == "^";
  if (negated) ++at;
  bool found = false;
  for (; at < pattern.size() && pattern[at] != ']'; ++at) {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      found = found || pattern[++at] == c;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      auto const [least, most] = std::minmax({byte(pattern[at]), byte(pattern[at + 2])});
      found = found || (least <= byte(c) && byte(c) <= most);
      at += 2;
    } else {
      found = found || pattern[at] == c;
    }
  }
  return {std::min(at + 1, pattern.size()), found != negated};
}

/// `pattern` is not empty, and does not begin with '*'.
one_byte match_one(std::string_view pattern, char c) {
  switch (pattern.front()) {
    case '?': return {1, true};
    case '[': return match_set(pattern, c);
    case '\\':
      if (pattern.size() > 1) return {2, pattern[1] == c};
      break;
    default: break;
  }
  return {1, pattern.front() == c};
}

/// Each once.
void in_order(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

std::string key_pattern(std::string_view prefix, std::string_view pattern) {
  std::string key;
  for (char const c : prefix) {
    if (std::string_view{"*?[]\\"}.find(c) != std::string_view::npos) key += '\\';
    key += c;
  }
  key += '{';
  // As docs/protocol.md writes names in keys. A byte of a name is one or three there, so what stands for one byte becomes '*'.
  while (!pattern.empty()) {
    bool const escaped = pattern.front() == '\\' && pattern.size() > 1;
    char const c = escaped ? pattern[1] : pattern.front();
    if (c == '%') {
      key += "%25";
    } else if (c == '}') {
      key += "%7D";
    } else if (!escaped && (c == '?' || c == '[' || c == '*')) {
      key += '*';
    } else {
      key.append(escaped || c == '\\' ? "\\" : "") += c;
    }
    pattern.remove_prefix(escaped ? 2 : c == '*' ? 1 : match_one(pattern, c).size);
  }
  return key + '}';
}

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t at = 0, in_name = 0, behind_star = std::string_view::npos, tried = 0;
  while (in_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      behind_star = ++at;
      tried = in_name;
      continue;
    }
    one_byte const one = at < pattern.size() ? match_one(pattern.substr(at), name[in_name]) : one_byte{};
    if (one.fits) {
      at += one.size;
      ++in_name;
    } else if (behind_star != std::string_view::npos) {
      at = behind_star;
      in_name = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

std::string name_in_key(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return {};
  key.remove_prefix(prefix.size());
  if (!key.starts_with('{') || !key.ends_with('}') || key.size() < 3) return {};
  std::string_view const inside = key.substr(1, key.size() - 2);
  return inside.find('}') == std::string_view::npos ? unescaped(inside) : std::string{};
}

std::vector<std::string> names_of_locks(server_connection& server, std::string const& prefix, std::vector<std::string> const& patterns) {
  constexpr std::size_t most = 1'000'000;
  std::vector<std::string> names;
  for (std::string const& pattern : patterns.empty() ? std::vector<std::string>{"*"} : patterns) {
    std::string cursor = "0";
    do {
      reply r = server.answer_to({"SCAN", cursor, "MATCH", key_pattern(prefix, pattern), "COUNT", "1000"});
      if (r.items.size() != 2) throw failure{exit_code::refused, "invalid answer to SCAN"};
      cursor = r.items[0].text;
      for (reply const& key : r.items[1].items) {
        std::string name = name_in_key(prefix, key.text);
        if (!name.empty() && matches(pattern, name)) names.push_back(std::move(name));
      }
      if (names.size() > most) throw failure{exit_code::refused, "more than a million locks: give a pattern that matches fewer"};
    } while (cursor != "0");
  }
  in_order(names);  // SCAN may show a key twice
  return names;
}

lock_scanner::lock_scanner(connection const& all, std::string url, std::vector<std::string> patterns)
    : all_{all}, url_{std::move(url)}, patterns_{std::move(patterns)} {}

std::vector<std::pair<std::string, lock_status>> lock_scanner::look() {
  if (!client_) {
    client_.emplace(all_, url_);
    client_->require_server();
  }
  std::vector<std::string> names;
  try {
    for (std::string const& one : servers_behind(all_, url_)) {
      std::unique_ptr<server_connection>& server = scanned_[one];
      if (!server) server = std::make_unique<server_connection>(all_, one);
      std::vector<std::string> const here = names_of_locks(*server, all_.settings.key_prefix, patterns_);
      names.insert(names.end(), here.begin(), here.end());
    }
  } catch (failure const&) {
    scanned_.clear();
    throw;
  }
  in_order(names);  // a lock on its way from one master to another may be seen at both
  std::vector<std::pair<std::string, lock_status>> found;
  constexpr std::size_t at_once = 200;
  for (std::size_t i = 0; i < names.size(); i += at_once) {
    std::vector<std::string> const some{names.begin() + static_cast<std::ptrdiff_t>(i),
                                        names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), i + at_once))};
    std::vector<std::optional<lock_status>> told = client_->inspect(some);
    for (std::size_t k = 0; k < some.size(); ++k) {
      // What was let go meanwhile is no lock any more, and what is no lock cannot be told of.
      if (told[k] && (told[k]->locked() || told[k]->waiting != 0)) found.emplace_back(some[k], std::move(*told[k]));
    }
  }
  return found;
}

}  // namespace conch::cli
