// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "cli/cluster.hpp"
#include "cli/commands.hpp"
#include "cli/doctor_checks.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/measure.hpp"
#include "cli/operator.hpp"
#include "cli/output.hpp"
#include "cli/sentinels.hpp"
#include "cli/server_connection.hpp"
#include "cli/show.hpp"

#include <boost/system/system_error.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <utility>

namespace conch::cli {

namespace {

using namespace std::chrono_literals;

char const* name_of(verdict v) {
  switch (v) {
    case verdict::ok: return "ok";
    case verdict::warning: return "warning";
    case verdict::bad: break;
  }
  return "bad";
}

class doctor_visit {
 public:
  doctor_visit(arguments const& given, connection const& servers) : given_{given}, servers_{servers} {}

  int run() {
    for (std::string const& url : servers_.servers) {
      if (names_cluster(url)) look_at_cluster(url);
      else look_at(url);
    }
    if (clocks_.size() > 1 && !in_cluster_) tell("", judge_clocks(clocks_));
    if (servers_.quorum()) different_servers();
    hand_over();
    return static_cast<int>(worst_);
  }

 private:
  void tell(std::string const& server, finding const& f) {
    worst_ = std::max(worst_, f.how);
    if (given_.json) {
      boost::json::object o;
      if (!server.empty()) o["server"] = server;
      o["verdict"] = name_of(f.how);
      o["what"] = f.what;
      o["words"] = conch::readable(f.words, std::string::npos);
      if (!f.advice.empty()) o["advice"] = f.advice;
      print(one_line(o));
    } else {
      std::string line = name_of(f.how);
      line.resize(9, ' ');
      if ((servers_.quorum() || in_cluster_) && !server.empty()) line += server + ": ";
      print(line + f.what + ": " + f.words + '\n' + (f.advice.empty() ? "" : "         -> " + f.advice + '\n'));
    }
  }

  /// Each master by itself.
  void look_at_cluster(std::string const& url) {
    in_cluster_ = true;
    try {
      std::vector<master_word> words;
      std::vector<std::string> urls;
      for (cluster_master const& one : masters_of_cluster(servers_, url)) {
        words.push_back({one.address(), one.slots});
        urls.push_back(url_of_server(url, one.host, one.port));
      }
      tell("", judge_cluster(words));
      for (std::string const& master : urls) look_at(master);
    } catch (failure const& error) {
      if (auto const why = library_says(url); why) tell("", judge_failure("Cluster", why, without_password(url)));
      else tell("", {verdict::bad, "Cluster", error.what(), advice_for(error.code)});
    }
  }

  void look_at(std::string const& url) {
    std::string const name = without_password(url);
    error_code why;
    try {
      if (names_sentinels(url) && !sentinels(url, name)) return;  // that says it all
      why = library_says(url);
      if (says_it_all(why)) return tell(name, judge_failure("reachable", why, name));
      time_point const begin = clock::now();
      server_connection server{servers_, url};
      require_login(server);
      tell(name, {verdict::ok, "reachable", name + ", connected in " + readable(clock::now() - begin), ""});
      tell(name, judge_way(server.tls(), server.address().on_this_machine(), has_password(server)));
      round_trips(server, name);
      if (!information(server, name)) return;
      rights(server, url, name);
      versions(server, name);
    } catch (failure const& error) {
      if (why) tell(name, judge_failure("reachable", why, name));
      else tell(name, {verdict::bad, "reachable", name + ": " + error.what(), advice_for(error.code)});
    }
  }

  /// Otherwise each line that follows would be about the missing password.
  static void require_login(server_connection& server) {
    reply const r = server.command({"PING"});
    if (r.is_error() && r.text.starts_with("NOAUTH")) throw failure{exit_code::access_denied, r.text};
  }

  bool has_password(server_connection const& server) const { return servers_.login || !server.address().login.password.empty(); }

  static std::string advice_for(int code) {
    if (code == exit_code::access_denied) return "set user and password (conch doctor --help)";
    if (code == exit_code::wrong_config) return "check the TLS settings in the configuration file";
    if (code == exit_code::refused) return "is it Redis 6.2 or newer, or Valkey?";
    return "check that it runs, the URL, and firewalls in between";
  }

  /// What the library says of a server that it cannot use is more than a plain connection tells: a server that takes connections and does not
  /// answer, TLS at one end only, a Sentinel.
  error_code library_says(std::string const& url) const {
    try {
      operator_client client{servers_, url, nullptr};
      client.inspect("conch-doctor");
    } catch (boost::system::system_error const& error) {
      if (error.code() != errc::wrong_type) return error.code();
    }
    return {};
  }

  /// Of other errors the lines that follow say more.
  static bool says_it_all(error_code why) {
    return why == condition::unreachable || why == errc::tls_failed || why == errc::protocol || why == errc::invalid_url;
  }

  bool sentinels(std::string const& url, std::string const& name) {
    std::vector<sentinel_word> words;
    for (sentinel_answer const& a : ask_sentinels(servers_, url)) {
      words.push_back({a.sentinel, a.error.empty() ? a.host + ':' + a.port : a.error, !a.error.empty()});
    }
    finding all = judge_sentinels(words);
    if (all.how == verdict::bad) {
      error_code const why = library_says(url);
      if (why && why != errc::invalid_config) all = judge_failure("Sentinels", why, name);
    }
    tell(name, all);
    return all.how != verdict::bad;
  }

  void round_trips(server_connection& server, std::string const& name) {
    asked_for_time const asked = ask_for_time(server, name);
    if (asked.clock) clocks_.push_back(*asked.clock);
    round_trip_ = quantile(asked.trips, 0.5);
    tell(name, judge_round_trip(round_trip_, *std::max_element(asked.trips.begin(), asked.trips.end())));
  }

  struct asked_for_time {
    std::vector<duration> trips;
    std::optional<clock_offset> clock;  // empty: it does not tell
  };

  /// Of several answers that with the shortest round trip is the best.
  static asked_for_time ask_for_time(server_connection& server, std::string const& name) {
    asked_for_time all;
    for (int i = 0; i < 20; ++i) {
      time_point const begin = clock::now();
      reply const now = server.command({"TIME"});
      duration const trip = clock::now() - begin;
      duration const mine = std::chrono::system_clock::now().time_since_epoch();
      all.trips.push_back(trip);
      if (now.items.size() != 2 || (all.clock && trip / 2 >= all.clock->uncertainty)) continue;
      duration const theirs =
          std::chrono::seconds{std::atoll(now.items[0].text.c_str())} + std::chrono::microseconds{std::atoll(now.items[1].text.c_str())};
      all.clock = clock_offset{name, theirs - (mine - trip / 2), trip / 2};
    }
    return all;
  }

  /// False: it keeps no locks, and the rest is not asked for.
  bool information(server_connection& server, std::string const& name) {
    server_info const info = parse_info(server.command({"INFO"}).text);
    auto const run = info.find("run_id");
    runs_.push_back({name, run == info.end() ? std::string{} : run->second});
    for (auto const judge : {judge_version, judge_role}) tell(name, judge(info, in_cluster_));
    if (is_sentinel(info)) return false;
    for (auto const judge : {judge_eviction, judge_persistence}) tell(name, judge(info));
    if (auto const memory = judge_memory(info)) tell(name, *memory);
    if (!is_master(info)) return true;  // what its replicas have is nothing to it
    tell(name, judge_replicas(info, servers_.settings.sync_replicas, in_cluster_));
    replicas(server, name, info);
    return true;
  }

  void different_servers() {
    std::size_t const asked_for = servers_.settings.quorum.votes_needed;
    tell("", judge_distinct(runs_, asked_for != 0 ? asked_for : servers_.servers.size() / 2 + 1));
  }

  /// By the scripts that the server knows.
  void versions(server_connection& server, std::string const& name) {
    std::vector<std::string_view> found;
    bool known = true;
    for (earlier_version const& one : earlier_versions()) {
      std::vector<std::string> words{"SCRIPT", "EXISTS"};
      words.insert(words.end(), one.scripts.begin(), one.scripts.end());
      reply const r = server.command(words);
      known = known && !r.is_error();
      if (std::any_of(r.items.begin(), r.items.end(), [](reply const& has) { return has.number == 1; })) found.push_back(one.version);
    }
    tell(name, judge_client_versions(found, known));
  }

  /// Their clocks: with the same user and TLS, where the master says that they are.
  void replicas(server_connection const& master, std::string const& name, server_info const& info) {
    std::vector<clock_offset> all;
    std::vector<std::string> unknown;
    if (!clocks_.empty() && clocks_.back().server == name) all.push_back(clocks_.back());
    constexpr std::size_t most = 100;
    for (replica_address const& one : replicas_of(info)) {
      if (all.size() + unknown.size() > most) break;
      server_address where = master.address();
      where.path.clear();
      where.host = one.host;
      where.port = one.port;
      std::string const label = one.host + ':' + one.port;
      try {
        server_connection replica{where, servers_.login.value_or(where.login), 1s};
        asked_for_time const asked = ask_for_time(replica, label);
        if (asked.clock) all.push_back(*asked.clock);
        else unknown.push_back(label + " does not tell its time");
      } catch (failure const& error) {
        unknown.push_back(label + ": " + error.what());
      }
    }
    if (all.size() > 1 || !unknown.empty()) tell(name, judge_replica_clocks(all, unknown, servers_.settings.lease));
  }

  /// Each command, on keys that nobody uses. A second connection subscribes, and is then ended by the first.
  void rights(server_connection& server, std::string const& url, std::string const& name) {
    std::string const prefix = servers_.settings.key_prefix;
    std::random_device random;
    std::string const key = prefix + "{conch-doctor-" + std::to_string(::getpid()) + '-' + std::to_string(random()) + '}';
    server_connection other{servers_, url};
    reply const id = other.command({"CLIENT", "ID"});
    std::vector<needed_right const*> lacking;
    std::vector<needed_right> const& needed = needed_rights(in_cluster_);
    for (needed_right const& one : needed) {
      std::vector<std::string> words = one.probe;
      for (std::size_t i = 1; i < words.size(); ++i) words[i] = filled(words[i], i, key, prefix, id);
      bool const subscribes = one.name.ends_with("subscribe");
      reply const r = subscribes ? other.command(words) : server.command(words);
      if (r.is_error() && r.text.starts_with("NOPERM")) lacking.push_back(&one);
    }
    server.command({"DEL", key, key + ":q", key + ":e", key + ":r"});
    for (finding const& f : judge_rights(lacking, needed.size(), servers_.settings.sync_replicas)) tell(name, f);
  }

  static std::string filled(std::string const& word, std::size_t at, std::string const& key, std::string const& prefix, reply const& id) {
    if (word.starts_with("KEY")) return key + word.substr(3);
    if (word == "CHANNEL") return prefix + "conch-doctor";
    // CLIENT KILL ID N: nobody has number 0.
    if (word == "ID" && at == 3) return std::to_string(id.what == reply::kind::integer ? id.number : 0);
    return word;
  }

  void hand_over() {
    if (worst_ == verdict::bad && clocks_.empty()) return;  // nobody is there
    try {
      std::vector<duration> const all = measure_hand_overs(servers_, duration::zero(), 12);
      tell("", judge_hand_over(quantile(all, 0.5), round_trip_));
    } catch (boost::system::system_error const& error) {
      tell("", judge_failure("hand-over", error.code(), ""));
    }
  }

  arguments const& given_;
  connection const& servers_;
  verdict worst_ = verdict::ok;
  bool in_cluster_ = false;
  duration round_trip_{};
  std::vector<clock_offset> clocks_;
  std::vector<server_run> runs_;  // of the servers that were asked
};

}  // namespace

int doctor(arguments const& given, connection const& servers) {
  doctor_visit visit{given, servers};
  return visit.run();
}

}  // namespace conch::cli
