// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/examination.hpp"

#include "base/duration_text.hpp"
#include "base/numbers.hpp"
#include "base/readable.hpp"
#include "servers/zookeeper/acl.hpp"
#include "servers/zookeeper/faults.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace conch::zookeeper {

using servers::finding;

namespace {

/// The text after `name` up to the end of the line or one of `ends`.
std::string_view value_behind(std::string_view text, std::string_view name, std::string_view ends) {
  auto const found = text.find(name);
  if (found == std::string_view::npos) return {};
  text.remove_prefix(found + name.size());
  return text.substr(0, text.find_first_of(ends));
}

/// The first three numbers of "3.8.0-5a02a05".
std::optional<std::array<int, 3>> numbers_of(std::string_view version) {
  std::array<int, 3> all{};
  for (int& one : all) {
    auto const end = std::min(version.find_first_not_of("0123456789"), version.size());
    auto const read = whole_number<int>(version.substr(0, end));
    if (!read) return std::nullopt;
    one = *read;
    version.remove_prefix(std::min(end + 1, version.size()));
  }
  return all;
}

std::string listed(std::vector<server_word> const& all) {
  std::string shown;
  for (server_word const& one : all)
    shown += (shown.empty() ? "" : "; ") + one.server + ": " + (one.trouble.empty() ? one.mode : one.trouble);
  return readable(shown, longest_line);
}

}  // namespace

server_word read_word(std::string server, std::string_view text) {
  server_word word;
  word.server = std::move(server);
  word.version = readable(value_behind(text, "Zookeeper version: ", "-,\n"));
  word.mode = readable(value_behind(text, "Mode: ", "\n"));
  if (!word.version.empty() && !word.mode.empty()) return word;
  word.trouble = text.find("not in the whitelist") != std::string_view::npos
                     ? "it does not answer srvr (4lw.commands.whitelist)"
                     : readable(text.substr(0, text.find('\n')));
  return word;
}

finding judge_ensemble(std::vector<server_word> const& all) {
  constexpr char const* what = "servers";
  std::string const shown = listed(all);
  auto const silent = static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](auto const& one) { return !one.trouble.empty(); }));
  bool const standalone = std::any_of(all.begin(), all.end(), [](auto const& one) { return one.mode == "standalone"; });
  if (standalone && all.size() > 1) {
    return {servers::verdict::bad, what, shown,
            "a standalone server is not a member of the ensemble: two clients could hold a lock at two servers"};
  }
  if (standalone) return {servers::verdict::ok, what, shown + ": when this server is away, so are all locks", ""};
  if (silent != 0)
    return {servers::verdict::warning, what, shown, "look at those that do not answer: locks need a majority"};
  return {servers::verdict::ok, what, shown, ""};
}

finding judge_version(std::vector<server_word> const& all) {
  constexpr char const* what = "version";
  constexpr std::array<int, 3> oldest{3, 5, 3};
  std::string shown;
  bool is_old = false;
  for (server_word const& one : all) {
    auto const numbers = numbers_of(one.version);
    if (!numbers) continue;
    is_old = is_old || *numbers < oldest;
    if (shown.find(one.version) == std::string::npos) shown += (shown.empty() ? "ZooKeeper " : ", ") + one.version;
  }
  if (shown.empty())
    return {servers::verdict::ok, what, "not known: no server answers srvr (4lw.commands.whitelist)", ""};
  if (is_old) return {servers::verdict::bad, what, shown, "conch needs ZooKeeper 3.5.3 or newer"};
  return {servers::verdict::ok, what, shown, ""};
}

finding judge_session(session_facts const& f) {
  constexpr char const* what = "session";
  std::string const shown = duration_text(f.given) + ", asked for " + duration_text(f.asked);
  if (f.given < f.least) {
    return {
        servers::verdict::bad, what, shown + "; conch needs " + duration_text(f.least),
        "raise maxSessionTimeout at the servers, or set zookeeper.session_margin to their tickTime if that is less"};
  }
  if (f.given < f.lease) {
    return {servers::verdict::warning, what,
            shown + ": all leases are that short, instead of " + duration_text(f.lease),
            "raise maxSessionTimeout at the servers"};
  }
  return {servers::verdict::ok, what, shown, ""};
}

finding judge_root(root_facts const& f) {
  constexpr char const* what = "rights";
  if (f.what == status::no_node)
    return {servers::verdict::ok, what, f.path + " is not there yet: the first client makes it, if it may", ""};
  if (f.what != status::ok) {
    return {servers::verdict::bad, what, readable(words_of(f.what, "read the ACL of " + f.path), longest_line),
            "give this user all rights to " + f.path + ": setAcl " + f.path + " auth::cdrwa"};
  }
  std::vector<right> mine;
  if (!f.user.empty()) mine.push_back({0, "digest", f.user + ":x"});
  strangers const others = writers_beside(mine, f.rights);
  if (f.user.empty()) {
    return {others.anyone ? servers::verdict::ok : servers::verdict::warning, what,
            f.path + (others.anyone ? " is open to everybody who reaches the servers"
                                    : " is for named users, and this client has no user"),
            others.anyone ? "" : "give a user and a password"};
  }
  if (others.anyone)
    return {servers::verdict::bad, what, "anybody may change " + f.path,
            "setAcl " + f.path + " auth::cdrwa, as that user"};
  if (!others.named.empty())
    return {servers::verdict::ok, what, f.path + " may also be changed by " + readable(others.named), ""};
  return {servers::verdict::ok, what, f.path + " is for this user only", ""};
}

}  // namespace conch::zookeeper
