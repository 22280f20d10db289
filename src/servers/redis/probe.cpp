// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/probe.hpp"

#include "base/overloaded.hpp"
#include "servers/judge.hpp"
#include "servers/redis/cluster_masters.hpp"
#include "servers/redis/examination.hpp"
#include "servers/redis/lock_names.hpp"
#include "servers/redis/questions.hpp"
#include "servers/redis/sentinel_answers.hpp"
#include "servers/redis/visit.hpp"

#include <boost/system/system_error.hpp>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch::redis {

namespace {

class probe final : public servers::probe {
 public:
  probe(config settings, named_servers where) : settings_{std::move(settings)}, where_{std::move(where)} {}

  duration round_trip() override {
    if (!asked_) asked_.emplace(settings_, masters().front());
    time_point const begin = conch::clock::now();
    asked_->ask({"PING"});
    return conch::clock::now() - begin;
  }
  std::vector<servers::seen_lock> locks(std::vector<std::string> const& patterns) override;
  void examine(tell const& to) override {
    std::visit(overloaded{[&](address const& one) { examine_one(one, to); },
                          [&](sentinel_url const& all) { examine_behind(all, to); },
                          [&](cluster_url const& all) { examine_each(all, to); }},
               where_);
  }
  std::optional<servers::clock_offset> clock() const override { return clock_; }
  std::string identity() const override { return identity_; }

 private:
  bool in_cluster() const noexcept { return std::holds_alternative<cluster_url>(where_); }
  std::vector<address> masters() const;
  void examine_one(address const& where, tell const& to);
  void examine_behind(sentinel_url const& all, tell const& to);
  void examine_each(cluster_url const& all, tell const& to) const;

  config const settings_;
  named_servers const where_;
  std::optional<questions> asked_;
  std::map<std::string, questions> scanned_;  // by the server
  std::optional<servers::clock_offset> clock_;
  std::string identity_;
};

/// The servers that have the locks.
std::vector<address> probe::masters() const {
  return std::visit(
      overloaded{[](address const& one) { return std::vector<address>{one}; },
                 [&](sentinel_url const& all) {
                   return std::vector<address>{find_master(settings_, all, ask_sentinels(settings_, all))};
                 },
                 [&](cluster_url const& all) {
                   std::vector<address> each;
                   for (cluster_master& one : ask_for_masters(settings_, all)) each.push_back(std::move(one.where));
                   return each;
                 }},
      where_);
}

/// What a client refuses is refused here too, with the same words: a replica, a Sentinel, an old version.
std::vector<servers::seen_lock> probe::locks(std::vector<std::string> const& patterns) {
  introduction const how = in_cluster() ? introduction::as_cluster_client : introduction::as_client;
  servers::found_locks all;  // a lock on its way from one master to another may be seen at both
  try {
    for (address const& one : masters()) {
      questions& server = scanned_.try_emplace(one.shown(), settings_, one, questions::usual_limit, how).first->second;
      find_locks(server, settings_.key_prefix, patterns, all);
    }
  } catch (boost::system::system_error const&) {
    scanned_.clear();  // the next call begins with other connections
    throw;
  }
  return all.take();
}

void probe::examine_one(address const& where, tell const& to) {
  std::string const no_label;
  visit here{settings_, where, false, no_label, to};
  here.run();
  clock_ = here.clock();
  identity_ = here.identity();
}

void probe::examine_behind(sentinel_url const& all, tell const& to) {
  std::vector<sentinel_answer> const answers = ask_sentinels(settings_, all);
  std::vector<sentinel_word> words;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    sentinel_answer const& a = answers[i];
    address const& sentinel = all.sentinels[i];
    std::string said =
        all.server.master.empty() ? "it knows no master without a name" : "it knows no master " + all.server.master;
    if (a.names_one()) said = host_and_port(a.host, a.port);
    else if (a.why) said = reason_of(a.why, sentinel);
    words.push_back({host_and_port(sentinel.host, sentinel.port), said, !a.names_one()});
  }
  finding of_all = judge_sentinels(words);
  bool const is_bad = of_all.how == verdict::bad;
  if (is_bad && !all.server.master.empty()) of_all = servers::judge_failure("Sentinels", no_master(all, answers), {});
  to({}, of_all);
  if (!is_bad) examine_one(find_master(settings_, all, answers), to);
}

/// Each master separately. Their clocks and identities say nothing about other URLs.
void probe::examine_each(cluster_url const& all, tell const& to) const {
  std::vector<cluster_master> masters;
  try {
    masters = ask_for_masters(settings_, all);
  } catch (boost::system::system_error const& error) {
    return to({}, servers::judge_failure("Cluster", error.code(), {}));
  }
  std::vector<master_word> words;
  for (cluster_master const& one : masters) words.push_back({host_and_port(one.where.host, one.where.port), one.slots});
  to({}, judge_cluster(words));
  for (cluster_master const& one : masters) {
    std::string const label = one.where.shown();
    try {
      visit here{settings_, one.where, true, label, to};
      here.run();
    } catch (boost::system::system_error const& error) {
      to(label, servers::judge_failure("reachable", error.code(), label));
    }
  }
}

}  // namespace

std::unique_ptr<servers::probe> make_probe(config const& settings, named_servers where) {
  return std::make_unique<probe>(settings, std::move(where));
}

}  // namespace conch::redis
