// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/probe.hpp"

#include "base/duration_text.hpp"
#include "base/glob.hpp"
#include "base/introduction.hpp"
#include "engine/backend.hpp"
#include "protocol/wire.hpp"
#include "servers/found_locks.hpp"
#include "servers/judge.hpp"
#include "servers/zookeeper/examination.hpp"
#include "servers/zookeeper/faults.hpp"
#include "servers/zookeeper/four_letters.hpp"
#include "servers/zookeeper/line_status.hpp"
#include "servers/zookeeper/names.hpp"
#include "servers/zookeeper/questions.hpp"
#include "servers/zookeeper/session.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace conch::zookeeper {

namespace {

using namespace std::chrono_literals;
using servers::finding;
using servers::seen_lock;

/// The session's clock of fences: when the root was made, in microseconds since 2020.
std::int64_t birth_of(stat const& root) { return root.created_ms * 1000 - protocol::fence_epoch_us; }

bool is_on_this_machine(std::vector<address> const& servers) {
  return std::all_of(servers.begin(), servers.end(), [](address const& one) { return is_this_machine(one.host); });
}

class probe final : public servers::probe {
 public:
  probe(config settings, ensemble_url where)
      : settings_{std::move(settings)},
        where_{std::move(where)},
        root_{root_of(where_.chroot, settings_.key_prefix)} {}

  duration round_trip() override {
    return with_server([](questions& server) { return server.ping(); });
  }
  bool knows_status() const noexcept override { return true; }
  std::vector<seen_lock> locks(std::vector<std::string> const& patterns) override {
    return with_server([&](questions& server) { return locks_at(server, patterns); });
  }
  lock_status look(std::string const& name) override {
    return with_server([&](questions& server) { return statuses(server, {encoded(name)}).front(); });
  }
  void examine(tell const& to) override;

 private:
  /// A session may have ended since the last call: then another one is asked. After an error the next call begins anew.
  template <class F>
  std::invoke_result_t<F const&, questions&> with_server(F const& ask) {
    bool const is_new = !server_;
    try {
      return ask(server());
    } catch (boost::system::system_error const&) {
      server_.reset();
      if (is_new) throw;
    }
    try {
      return ask(server());
    } catch (boost::system::system_error const&) {
      server_.reset();
      throw;
    }
  }
  questions& server() {
    if (!server_) server_.emplace(settings_, where_);
    return *server_;
  }
  std::vector<seen_lock> locks_at(questions& server, std::vector<std::string> const& patterns) const;
  std::vector<lock_status> statuses(questions& server, std::vector<std::string> const& folders) const;
  void complete(questions& server, std::string_view folder, line_status& of, std::int64_t birth) const;
  std::vector<introduction> introductions(questions& server, std::vector<stat> const& nodes) const;
  void examine_at(questions& server, tell const& to) const;
  void look_at_time(questions& server, tell const& to) const;
  void look_at_servers(tell const& to) const;
  void look_at_rights(questions& server, tell const& to) const;

  config const settings_;
  ensemble_url const where_;
  std::string const root_;
  std::optional<questions> server_;
};

[[noreturn]] void refuse(status what, std::string const& asked, questions const& server) {
  throw boost::system::system_error{to_error(what, asked, server.shown())};
}

std::vector<seen_lock> probe::locks_at(questions& server, std::vector<std::string> const& patterns) const {
  constexpr std::size_t at_once = 200;
  reply const listed = server.ask(get_children{root_});
  if (listed.what == status::no_node) return {};  // no lock has been used yet
  auto const* const folders = std::get_if<children>(&listed.content);
  if (folders == nullptr) refuse(listed.what, "list " + root_, server);
  std::vector<std::string> wanted;
  for (std::string const& one : folders->names) {
    auto const name = decoded(one);
    if (name && matches_one(patterns, *name)) wanted.push_back(one);
  }
  servers::found_locks::check_count(wanted.size());  // before each of them is asked for
  servers::found_locks all;
  for (std::size_t i = 0; i < wanted.size(); i += at_once) {
    auto const begin = wanted.begin() + static_cast<std::ptrdiff_t>(i),
               end = wanted.begin() + static_cast<std::ptrdiff_t>(std::min(wanted.size(), i + at_once));
    std::vector<lock_status> told = statuses(server, {begin, end});
    for (std::size_t k = 0; k < told.size(); ++k)
      all.add(*decoded(*(begin + static_cast<std::ptrdiff_t>(k))), std::move(told[k]));
  }
  return all.take();
}

/// For the locks with these folders. A missing folder is a free lock.
std::vector<lock_status> probe::statuses(questions& server, std::vector<std::string> const& folders) const {
  std::vector<request> wanted{get_data{root_}};
  for (std::string const& one : folders) wanted.emplace_back(get_children{root_ + '/' + one});
  std::vector<reply> const answers = server.ask(wanted);
  auto const* const root = std::get_if<data>(&answers.front().content);
  std::int64_t const birth = root == nullptr ? 0 : birth_of(root->node);
  std::vector<lock_status> all;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    reply const& one = answers[i + 1];
    auto const* const nodes = std::get_if<children>(&one.content);
    if (nodes == nullptr && one.what != status::no_node) refuse(one.what, "list " + root_ + '/' + folders[i], server);
    line_status line = nodes == nullptr ? line_status{} : read_line(nodes->names);
    complete(server, folders[i], line, birth);
    all.push_back(std::move(line.status));
  }
  return all;
}

/// With fences, times, and what the clients tell about themselves. A holder that has gone meanwhile keeps none.
void probe::complete(questions& server, std::string_view folder, line_status& of, std::int64_t birth) const {
  std::string const in = root_ + '/' + std::string{folder} + '/';
  std::vector<request> wanted;
  for (std::string const& node : of.holders) wanted.emplace_back(get_data{in + node});
  for (std::string const& node : of.waiters) wanted.emplace_back(get_data{in + node});
  if (wanted.empty()) return;
  std::vector<stat> nodes;
  for (reply const& one : server.ask(wanted)) {
    auto const* const node = std::get_if<data>(&one.content);
    nodes.push_back(node != nullptr ? node->node : stat{});
  }
  std::vector<introduction> const who = introductions(server, nodes);
  auto const since = [](stat const& node) {
    return std::chrono::system_clock::time_point{std::chrono::milliseconds{node.created_ms}};
  };
  std::optional<std::string> const lock = decoded(folder);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto const keep = i < of.holders.size() ? read_keep_name(of.holders[i]) : std::nullopt;
    // A client that may create nodes can give them any name.
    std::int64_t const fence =
        birth + (keep ? std::clamp<std::int64_t>(keep->created, 0, protocol::fence_limit / 2) : nodes[i].created);
    if (i < of.holders.size()) {
      lock_holder& h = of.status.holders[i];
      if (nodes[i] == stat{}) continue;
      h.fence = fence * engine::hand_offs_per_grant;
      h.since = since(nodes[i]);
      h.label = who[i].label;
      h.note = note_of(who[i], *lock, fence).value_or("");
    } else {
      lock_waiter& w = of.status.waiters[i - of.holders.size()];
      w.since = since(nodes[i]);
      w.label = who[i].label;
      w.note = note_of(who[i], *lock, 0).value_or("");
    }
  }
}

/// The introductions of the sessions that own these nodes, in their order.
std::vector<introduction> probe::introductions(questions& server, std::vector<stat> const& nodes) const {
  std::map<std::int64_t, introduction> by_session;
  for (stat const& one : nodes) by_session[one.owner];
  std::vector<request> wanted;
  for (auto const& [session, nothing] : by_session) wanted.emplace_back(get_data{session_node_of(root_, session)});
  std::vector<reply> const answers = server.ask(wanted);
  std::size_t next = 0;
  for (auto& [session, who] : by_session) {
    auto const* const told = std::get_if<data>(&answers[next++].content);
    if (told != nullptr) who = read_introduction(told->bytes);
  }
  std::vector<introduction> all;
  for (stat const& one : nodes) all.push_back(by_session[one.owner]);
  return all;
}

void probe::examine(tell const& to) {
  with_server([&](questions& server) { examine_at(server, to); });
}

void probe::examine_at(questions& server, tell const& to) const {
  to({}, {servers::verdict::ok, "reachable", server.shown() + ", connected in " + duration_text(server.connected_in()),
          ""});
  address const& any = where_.servers.front();
  std::string const tls = !any.over_tls          ? ""
                          : settings_.tls.verify ? "on, and the server's certificate is verified"
                                                 : "on, without verification";
  to({},
     servers::judge_exposure({tls, is_on_this_machine(where_.servers), !any.password.empty(), "use zookeepers://"}));
  look_at_time(server, to);
  look_at_servers(to);
  // The delay after a loss needs all of it.
  bool const needs_all = settings_.lock_delay > duration::zero();
  auto const least = std::chrono::ceil<std::chrono::milliseconds>(least_session(settings_));
  to({}, judge_session({server.asked_session(), server.session(), needs_all ? server.asked_session() : least,
                        std::chrono::ceil<std::chrono::milliseconds>(settings_.lease)}));
  look_at_rights(server, to);
}

void probe::look_at_time(questions& server, tell const& to) const {
  std::vector<duration> trips;
  for (int i = 0; i < 20; ++i) trips.push_back(server.ping());
  to({}, servers::judge_round_trip(std::move(trips)));
}

void probe::look_at_servers(tell const& to) const {
  std::vector<server_word> words;
  for (self_description const& one : ask_each(where_.servers, settings_.tls, 2s)) {
    if (one.trouble.empty()) words.push_back(read_word(one.server, one.text));
    else words.push_back({one.server, {}, {}, one.trouble});
  }
  to({}, judge_version(words));
  to({}, judge_ensemble(words));
}

void probe::look_at_rights(questions& server, tell const& to) const {
  reply const told = server.ask(get_acl{root_});
  root_facts f{root_, told.what, {}, where_.servers.front().user};
  if (auto const* const found = std::get_if<rights>(&told.content)) f.rights = found->all;
  to({}, judge_root(f));
}

}  // namespace

std::unique_ptr<servers::probe> make_probe(config const& settings, ensemble_url where) {
  return std::make_unique<probe>(settings, std::move(where));
}

}  // namespace conch::zookeeper
