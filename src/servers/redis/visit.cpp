// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/visit.hpp"

#include "base/duration_text.hpp"
#include "base/numbers.hpp"
#include "base/readable.hpp"
#include "servers/judge.hpp"
#include "servers/redis/rights.hpp"

#include <boost/system/system_error.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string_view>
#include <utility>

namespace conch::redis {

namespace {

/// For a lock that is not in use.
std::string key_of_doctor(std::string const& prefix) {
  std::random_device random;
  return prefix + "{conch-doctor-" + std::to_string(::getpid()) + '-' + std::to_string(random()) + '}';
}

/// The server's TIME.
std::optional<duration> time_in(reply const& r) {
  auto const seconds = whole_number<std::int64_t>(r.item(0)), microseconds = whole_number<std::int64_t>(r.item(1));
  constexpr std::int64_t year_2255 = 9'000'000'000;
  if (r.items() != 2 || !seconds || !microseconds || *seconds < 0 || *seconds > year_2255 || *microseconds < 0 ||
      *microseconds > 999'999)
    return {};
  return std::chrono::seconds{*seconds} + std::chrono::microseconds{*microseconds};
}

}  // namespace

void visit::run() {
  questions server{settings_, where_};
  tell({verdict::ok, "reachable", where_.shown() + ", connected in " + duration_text(server.connected_in()), ""});
  bool const has_password = settings_.credentials_provider || !where_.password.empty();
  tell(servers::judge_exposure(
      {server.tls(), where_.is_unix_socket() || is_this_machine(where_.host), has_password, "use rediss://"}));
  time_asked asked = ask_for_time(server);
  clock_ = std::move(asked.clock);
  tell(servers::judge_round_trip(std::move(asked.trips)));
  if (!look_at_information(server)) return;
  look_at_rights(server);
  look_at_versions(server);
}

/// Among several answers, the one with the shortest round trip says most about the clock.
visit::time_asked visit::ask_for_time(questions& server) {
  time_asked all;
  for (int i = 0; i < 20; ++i) {
    time_point const begin = conch::clock::now();
    reply const now = server.ask({"TIME"});
    duration const trip = conch::clock::now() - begin, mine = std::chrono::system_clock::now().time_since_epoch();
    all.trips.push_back(trip);
    auto const theirs = time_in(now);
    if (!theirs || (all.clock && trip / 2 >= all.clock->uncertainty)) continue;
    all.clock = clock_offset{server.where().shown(), *theirs - (mine - trip / 2), trip / 2};
  }
  return all;
}

/// False: it keeps no locks, and the rest is not asked for.
bool visit::look_at_information(questions& server) {
  server_info info;
  // others can be long
  for (char const* const section : {"server", "memory", "persistence", "replication", "cluster"}) {
    reply const answer = server.ask({"INFO", section});
    if (!answer.is_error()) info.merge(parse_info(answer.text()));
  }
  if (auto const run = info.find("run_id"); run != info.end()) identity_ = readable(run->second);
  for (auto const judge : {judge_version, judge_role}) tell(judge(info, in_cluster_));
  if (is_sentinel(info)) return false;
  for (auto const judge : {judge_eviction, judge_persistence}) tell(judge(info));
  if (auto const memory = judge_memory(info)) tell(*memory);
  if (!is_master(info)) return true;  // what its replicas have is nothing to it
  tell(judge_replicas(info, settings_.sync_replicas, in_cluster_));
  look_at_replicas(info);
  return true;
}

/// Their clocks: with the same user and TLS, at the addresses that the master reports.
void visit::look_at_replicas(server_info const& info) {
  std::vector<clock_offset> all;
  std::vector<std::string> unknown;
  if (clock_) all.push_back(*clock_);
  constexpr std::size_t most = 100;
  for (replica_address const& one : replicas_of(info)) {
    if (all.size() + unknown.size() > most) break;
    address where = where_;
    where.path.clear();
    where.host = one.host;
    where.port = one.port;
    std::string const name = readable(host_and_port(one.host, one.port));
    try {
      questions replica{settings_, where, questions::short_limit};
      auto clock = ask_for_time(replica).clock;
      if (!clock) {
        unknown.push_back(name + " does not tell its time");
        continue;
      }
      clock->server = name;
      all.push_back(std::move(*clock));
    } catch (boost::system::system_error const& error) {
      unknown.push_back(name + ": " + reason_of(error.code(), where));
    }
  }
  if (all.size() > 1 || !unknown.empty()) tell(judge_replica_clocks(all, unknown, settings_.lease));
}

/// Each command, on unused keys. A second connection subscribes, and is then ended by the first.
void visit::look_at_rights(questions& server) {
  std::string const key = key_of_doctor(settings_.key_prefix), channel = settings_.key_prefix + "conch-doctor";
  questions other{settings_, where_};
  // CLIENT KILL ID N: no client has number 0.
  reply const its_id = other.ask({"CLIENT", "ID"});
  std::string const id = std::to_string(its_id.is_error() ? 0 : its_id.number());
  auto const filled = [&](std::string_view word, std::size_t position) {
    if (word.starts_with("KEY")) return key + std::string{word.substr(3)};
    if (word == "CHANNEL") return channel;
    return word == "ID" && position == 3 ? id : std::string{word};
  };
  std::vector<needed_right const*> lacking;
  std::vector<needed_right> const needed = needed_rights(in_cluster_);
  for (needed_right const& one : needed) {
    std::vector<std::string> words;
    for (std::string_view left = one.probe; !left.empty();) {
      std::string_view const word = left.substr(0, left.find(' '));
      left.remove_prefix(std::min(left.size(), word.size() + 1));
      words.push_back(filled(word, words.size()));
    }
    bool const subscribes = one.name.ends_with("subscribe");
    reply const r = subscribes ? other.ask(words) : server.ask(words);
    if (r.is_error() && r.text().starts_with("NOPERM")) lacking.push_back(&one);
  }
  server.ask({"DEL", key, key + ":q", key + ":e", key + ":r"});
  for (finding const& f : judge_rights(lacking, needed.size(), settings_.sync_replicas)) tell(f);
}

/// By the scripts that the server knows.
void visit::look_at_versions(questions& server) {
  std::vector<std::string_view> found;
  bool known = true;
  for (earlier_version const& one : earlier_versions()) {
    std::vector<std::string> words{"SCRIPT", "EXISTS"};
    words.insert(words.end(), one.scripts.begin(), one.scripts.end());
    reply const r = server.ask(words);
    known = known && !r.is_error();
    bool const has_one =
        std::any_of(r.nodes().begin(), r.nodes().end(), [](resp::node const& has) { return has.integer == 1; });
    if (has_one) found.push_back(one.version);
  }
  tell(judge_client_versions(found, known));
}

}  // namespace conch::redis
