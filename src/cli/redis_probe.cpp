// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/redis_probe.hpp"

#include "cli/cluster.hpp"
#include "cli/doctor_checks.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/measure.hpp"
#include "cli/operator.hpp"
#include "cli/scan.hpp"
#include "cli/sentinels.hpp"
#include "cli/server_connection.hpp"

#include <boost/system/system_error.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace conch::cli {

namespace {

using namespace std::chrono_literals;

class redis_probe final : public servers::probe {
 public:
  redis_probe(connection const& all, std::string url) : all_{all}, url_{std::move(url)}, in_cluster_{names_cluster(url_)} {}

  duration round_trip() override {
    if (!asked_) asked_.emplace(all_, servers_behind(all_, url_).front());
    time_point const begin = conch::clock::now();
    asked_->command({"PING"});
    return conch::clock::now() - begin;
  }

  std::vector<servers::seen_lock> locks(std::vector<std::string> const& patterns) override {
    if (!is_vetted_) vet();
    is_vetted_ = true;
    std::vector<std::string> names;
    try {
      for (std::string const& one : servers_behind(all_, url_)) {
        std::unique_ptr<server_connection>& server = scanned_[one];
        if (!server) server = std::make_unique<server_connection>(all_, one);
        std::vector<std::string> const here = names_of_locks(*server, all_.settings.key_prefix, patterns);
        names.insert(names.end(), here.begin(), here.end());
      }
    } catch (failure const&) {
      scanned_.clear();
      throw;
    }
    in_order(names);  // a lock on its way from one master to another may be seen at both
    std::vector<servers::seen_lock> all;
    for (std::string& one : names) all.push_back({std::move(one)});
    return all;
  }

  void examine(tell const& to) override {
    to_ = to;
    if (in_cluster_) look_at_cluster(url_);
    else look_at(url_);
  }

  std::optional<clock_offset> clock() const override { return in_cluster_ ? std::nullopt : clock_; }
  std::string identity() const override { return identity_; }

 private:
  /// A plain connection of the command knows less of what is wrong with a server.
  void vet() {
    operator_client client{all_, url_};
    client.require_server();
  }

  /// Each master by itself.
  void look_at_cluster(std::string const& url) {
    try {
      std::vector<master_word> words;
      std::vector<std::string> urls;
      for (cluster_master const& one : masters_of_cluster(all_, url)) {
        words.push_back({one.address(), one.slots});
        urls.push_back(url_of_server(url, one.host, one.port));
      }
      to_("", judge_cluster(words));
      for (std::string const& master : urls) look_at(master);
    } catch (failure const& error) {
      if (auto const why = library_says(url); why) to_("", judge_failure("Cluster", why, without_password(url)));
      else to_("", {verdict::bad, "Cluster", error.what(), advice_for(error.code)});
    }
  }

  void look_at(std::string const& url) {
    std::string const name = without_password(url);
    error_code why;
    try {
      if (names_sentinels(url) && !sentinels(url, name)) return;  // that says it all
      why = library_says(url);
      if (says_it_all(why)) return to_(name, judge_failure("reachable", why, name));
      time_point const begin = conch::clock::now();
      server_connection server{all_, url};
      require_login(server);
      to_(name, {verdict::ok, "reachable", name + ", connected in " + readable(conch::clock::now() - begin), ""});
      to_(name, judge_way(server.tls(), server.address().on_this_machine(), has_password(server)));
      round_trips(server, name);
      if (!information(server, name)) return;
      rights(server, url, name);
      versions(server, name);
    } catch (failure const& error) {
      if (why) to_(name, judge_failure("reachable", why, name));
      else to_(name, {verdict::bad, "reachable", name + ": " + error.what(), advice_for(error.code)});
    }
  }

  /// Otherwise each line that follows would be about the missing password.
  static void require_login(server_connection& server) {
    reply const r = server.command({"PING"});
    if (r.is_error() && r.text.starts_with("NOAUTH")) throw failure{exit_code::access_denied, r.text};
  }

  bool has_password(server_connection const& server) const { return all_.login || !server.address().login.password.empty(); }

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
      return operator_client{all_, url, nullptr}.why_not_used();
    } catch (boost::system::system_error const& error) {  // of the settings
      return error.code();
    }
  }

  /// Of other errors the lines that follow say more.
  static bool says_it_all(error_code why) {
    return why == condition::unreachable || why == errc::tls_failed || why == errc::protocol || why == errc::invalid_url;
  }

  bool sentinels(std::string const& url, std::string const& name) {
    std::vector<sentinel_word> words;
    for (sentinel_answer const& a : ask_sentinels(all_, url)) {
      words.push_back({a.sentinel, a.error.empty() ? a.host + ':' + a.port : a.error, !a.error.empty()});
    }
    finding all = judge_sentinels(words);
    if (all.how == verdict::bad) {
      error_code const why = library_says(url);
      if (why && why != errc::invalid_config) all = judge_failure("Sentinels", why, name);
    }
    to_(name, all);
    return all.how != verdict::bad;
  }

  void round_trips(server_connection& server, std::string const& name) {
    asked_for_time const asked = ask_for_time(server, name);
    if (asked.clock) clock_ = asked.clock;
    to_(name, judge_round_trip(quantile(asked.trips, 0.5), *std::max_element(asked.trips.begin(), asked.trips.end())));
  }

  struct asked_for_time {
    std::vector<duration> trips;
    std::optional<clock_offset> clock;  // empty: it does not tell
  };

  /// Of several answers that with the shortest round trip is the best.
  static asked_for_time ask_for_time(server_connection& server, std::string const& name) {
    asked_for_time all;
    for (int i = 0; i < 20; ++i) {
      time_point const begin = conch::clock::now();
      reply const now = server.command({"TIME"});
      duration const trip = conch::clock::now() - begin;
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
    if (auto const run = info.find("run_id"); run != info.end()) identity_ = run->second;
    for (auto const judge : {judge_version, judge_role}) to_(name, judge(info, in_cluster_));
    if (is_sentinel(info)) return false;
    for (auto const judge : {judge_eviction, judge_persistence}) to_(name, judge(info));
    if (auto const memory = judge_memory(info)) to_(name, *memory);
    if (!is_master(info)) return true;  // what its replicas have is nothing to it
    to_(name, judge_replicas(info, all_.settings.sync_replicas, in_cluster_));
    replicas(server, name, info);
    return true;
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
    to_(name, judge_client_versions(found, known));
  }

  /// Their clocks: with the same user and TLS, where the master says that they are.
  void replicas(server_connection const& master, std::string const& name, server_info const& info) {
    std::vector<clock_offset> all;
    std::vector<std::string> unknown;
    if (clock_ && clock_->server == name) all.push_back(*clock_);
    constexpr std::size_t most = 100;
    for (replica_address const& one : replicas_of(info)) {
      if (all.size() + unknown.size() > most) break;
      server_address where = master.address();
      where.path.clear();
      where.host = one.host;
      where.port = one.port;
      std::string const label = one.host + ':' + one.port;
      try {
        server_connection replica{where, all_.login.value_or(where.login), 1s};
        asked_for_time const asked = ask_for_time(replica, label);
        if (asked.clock) all.push_back(*asked.clock);
        else unknown.push_back(label + " does not tell its time");
      } catch (failure const& error) {
        unknown.push_back(label + ": " + error.what());
      }
    }
    if (all.size() > 1 || !unknown.empty()) to_(name, judge_replica_clocks(all, unknown, all_.settings.lease));
  }

  /// Each command, on keys that nobody uses. A second connection subscribes, and is then ended by the first.
  void rights(server_connection& server, std::string const& url, std::string const& name) {
    std::string const prefix = all_.settings.key_prefix;
    std::random_device random;
    std::string const key = prefix + "{conch-doctor-" + std::to_string(::getpid()) + '-' + std::to_string(random()) + '}';
    server_connection other{all_, url};
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
    for (finding const& f : judge_rights(lacking, needed.size(), all_.settings.sync_replicas)) to_(name, f);
  }

  static std::string filled(std::string const& word, std::size_t at, std::string const& key, std::string const& prefix, reply const& id) {
    if (word.starts_with("KEY")) return key + word.substr(3);
    if (word == "CHANNEL") return prefix + "conch-doctor";
    // CLIENT KILL ID N: nobody has number 0.
    if (word == "ID" && at == 3) return std::to_string(id.what == reply::kind::integer ? id.number : 0);
    return word;
  }

  connection const& all_;
  std::string const url_;
  bool const in_cluster_;
  tell to_;
  bool is_vetted_ = false;
  std::optional<server_connection> asked_;
  std::map<std::string, std::unique_ptr<server_connection>> scanned_;  // by the URL of the server
  std::optional<clock_offset> clock_;
  std::string identity_;
};

}  // namespace

std::unique_ptr<servers::probe> make_redis_probe(connection const& all, std::string const& url) { return std::make_unique<redis_probe>(all, url); }

}  // namespace conch::cli
