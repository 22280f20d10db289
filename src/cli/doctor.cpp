// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "base/votes.hpp"
#include "cli/commands.hpp"
#include "cli/doctor_checks.hpp"
#include "cli/exit_code.hpp"
#include "cli/measure.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"
#include "servers/judge.hpp"
#include "servers/probe.hpp"
#include "servers/urls.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace conch::cli {

namespace {

char const* verdict_name(verdict v) {
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
    for (std::string const& url : servers_.servers) look_at(url);
    if (clocks_.size() > 1) report("", conch::servers::judge_clocks(clocks_));
    if (servers_.quorum) different_servers();
    hand_over();
    return static_cast<int>(worst_);
  }

 private:
  void report(std::string const& server, finding const& f) {
    worst_ = std::max(worst_, f.how);
    reached_ = reached_ || (f.what == "reachable" && f.how == verdict::ok);
    // it gives no locks: nothing can be measured there
    if (f.what == "role" && f.how == verdict::bad) reached_ = false;
    if (given_.json) {
      boost::json::object o;
      if (!server.empty()) o["server"] = server;
      o["verdict"] = verdict_name(f.how);
      o["what"] = f.what;
      o["words"] = conch::readable(f.words, std::string::npos);
      if (!f.advice.empty()) o["advice"] = f.advice;
      print(one_line(o));
    } else {
      std::string line = verdict_name(f.how);
      line.resize(9, ' ');
      if (!server.empty() && (servers_.quorum || server != conch::servers::without_login(servers_.settings.url)))
        line += server + ": ";
      print(line + f.what + ": " + f.words + '\n' + (f.advice.empty() ? "" : "         -> " + f.advice + '\n'));
    }
  }

  void look_at(std::string const& url) {
    std::string const name = conch::servers::without_login(url);
    bool const reached_another = std::exchange(reached_, false);
    try {
      auto const probe = conch::servers::open_probe(servers_.at(url));
      probe->examine([&](std::string const& server, finding const& f) { report(server.empty() ? name : server, f); });
      if (auto const clock = probe->clock()) clocks_.push_back(*clock);
      if (reached_) runs_.push_back({name, probe->identity()});
      if (reached_) round_trip_ = round_trip_of(*probe);
      if (reached_) look_at_label(name, url, *probe);
    } catch (boost::system::system_error const& error) {
      report(name, conch::servers::judge_failure("reachable", error.code(), name));
    }
    reached_ = reached_ || reached_another;
  }

  void look_at_label(std::string const& name, std::string const& url, servers::probe& server) {
    std::function<lock_status(std::string const&)> look;
    if (server.knows_status()) look = [&](std::string const& lock) { return server.look(lock); };
    try {
      seen_label const seen = read_own_label(servers_, url, look);
      report(name, judge_label(seen.own, seen.read));
    } catch (boost::system::system_error const&) {
      // No lock can be acquired, or not looked at: the lines about rights and the hand-over say it.
    }
  }

  static duration round_trip_of(servers::probe& server) {
    std::vector<duration> all;
    for (int i = 0; i < 5; ++i) all.push_back(server.round_trip());
    return quantile(all, 0.5);
  }

  void different_servers() {
    report("", judge_distinct(runs_, votes_needed(servers_.settings.quorum, servers_.servers.size())));
  }

  void hand_over() {
    if (!reached_) return;
    try {
      std::vector<duration> const all = measure_hand_overs(servers_, duration::zero(), 12);
      report("", judge_hand_over(quantile(all, 0.5), round_trip_));
    } catch (boost::system::system_error const& error) {
      report("", conch::servers::judge_failure("hand-over", error.code(), ""));
    }
  }

  arguments const& given_;
  connection const& servers_;
  verdict worst_ = verdict::ok;
  bool reached_ = false;
  duration round_trip_{};
  std::vector<conch::servers::clock_offset> clocks_;
  std::vector<server_run> runs_;  // of the servers that were asked
};

}  // namespace

int doctor(arguments const& given, connection const& servers) {
  doctor_visit visit{given, servers};
  return visit.run();
}

}  // namespace conch::cli
