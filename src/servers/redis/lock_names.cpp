// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/lock_names.hpp"

#include "base/glob.hpp"
#include "servers/redis/codec.hpp"

#include <boost/system/system_error.hpp>

#include <utility>

namespace conch::redis {

std::string key_pattern(std::string_view prefix, std::string_view pattern) {
  std::string key;
  for (char const c : prefix) {
    if (std::string_view{"*?[]\\"}.find(c) != std::string_view::npos) key += '\\';
    key += c;
  }
  key += '{';
  // As escape_name() writes names in keys. A byte of a name is one or three there, so a wildcard for one byte becomes
  // '*'.
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
    pattern.remove_prefix(escaped ? 2 : c == '*' ? 1 : glob::match_one(pattern, c).size);
  }
  return key + '}';
}

std::string name_in_key(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return {};
  key.remove_prefix(prefix.size());
  if (!key.starts_with('{') || !key.ends_with('}') || key.size() < 3) return {};
  std::string_view const inside = key.substr(1, key.size() - 2);
  return inside.find('}') == std::string_view::npos ? unescape_name(inside) : std::string{};
}

void find_locks(questions& server, std::string const& prefix, std::vector<std::string> const& patterns,
                servers::found_locks& to) {
  for (std::string const& pattern : patterns.empty() ? std::vector<std::string>{"*"} : patterns) {
    std::string cursor = "0";
    do {
      reply const r = server.answer_to({"SCAN", cursor, "MATCH", key_pattern(prefix, pattern), "COUNT", "1000"});
      // [cursor, [key, key ...]]
      auto const nodes = r.nodes();
      if (nodes.size() < 3 || nodes[0].count != 2 || nodes[2].what != resp::kind::array)
        throw boost::system::system_error{
            make_error_code(errc::protocol, server.where().shown() + ": invalid answer to SCAN")};
      cursor = nodes[1].text;
      for (resp::node const& key : nodes.subspan(3)) {
        std::string name = name_in_key(prefix, key.text);
        if (!name.empty() && matches(pattern, name)) to.add(std::move(name));
      }
    } while (cursor != "0");
  }
}

}  // namespace conch::redis
