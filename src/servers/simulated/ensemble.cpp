// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/ensemble.hpp"

#include "engine/backend.hpp"
#include "protocol/wire.hpp"
#include "servers/simulated/server.hpp"
#include "servers/zookeeper/order.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <utility>
#include <variant>

namespace conch::simulated {

namespace {

// By the defaults of a server: tickTime, and sessions of 2 to 20 ticks.
constexpr std::int64_t tick_us = 2'000'000;
constexpr std::int64_t shortest_ms = 4'000, longest_ms = 40'000;

constexpr std::int64_t first_epoch = std::int64_t{1} << 32;

std::string password_of(std::int64_t session) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(session));
  return text;
}

/// As a server shows them: without the password.
zookeeper::rights rights_of(node_tree::node const& n) {
  constexpr std::int32_t all = 31;
  if (n.users.empty()) return {{{all, "world", "anyone"}}};
  zookeeper::rights shown;
  for (std::string const& user : n.users) {
    std::size_t const number = std::hash<std::string>{}(user);
    shown.all.push_back({all, "digest", user.substr(0, user.find(':') + 1) + std::to_string(number)});
  }
  return shown;
}

bool is_folder_of_a_lock(node_tree::node const& n) { return n.owner == node_tree::container; }

}  // namespace

// ------------------------------------------------------------------------------------------------------------ sessions

ensemble::attached* ensemble::find(peer const& p) {
  auto const found = std::find_if(attached_.begin(), attached_.end(), [&](attached const& a) { return a.who == &p; });
  return found == attached_.end() ? nullptr : &*found;
}

void ensemble::greet(peer& p, zookeeper::connect_request const& r) {
  if (r.last_seen > tree_.last()) return p.closed("the server is behind what this client has seen");
  bool const is_known = sessions_.contains(r.session) && r.password == password_of(r.session);
  std::int64_t const session = r.session == 0 ? open(r) : is_known ? r.session : 0;
  if (session == 0) return p.greeted({0, 0, std::string(16, '\0')});
  touch(session);
  attached_.push_back({&p, session});
  p.greeted({static_cast<std::int32_t>(sessions_.at(session).timeout_us / 1000), session, password_of(session)});
}

std::int64_t ensemble::open(zookeeper::connect_request const& r) {
  std::int64_t const timeout_ms = std::clamp<std::int64_t>(r.timeout_ms, shortest_ms, longest_ms);
  transaction t;
  t.what = transaction::kind::open_session;
  t.session = ++last_session_;
  t.timeout_ms = static_cast<int>(timeout_ms);
  apply(t);
  sessions_[t.session] = {timeout_ms * 1000, 0};
  touch(t.session);
  check_later(t.session);
  return t.session;
}

/// At full ticks of the server's clock.
void ensemble::touch(std::int64_t session) {
  auto const found = sessions_.find(session);
  if (found == sessions_.end()) return;
  std::int64_t const end = owner_.world().clock_us() + found->second.timeout_us;
  found->second.ends_us = (end / tick_us + 1) * tick_us;
}

void ensemble::touch_all() {
  for (auto const& [session, its] : sessions_) touch(session);
}

void ensemble::check_later(std::int64_t session) {
  std::int64_t const left = sessions_.at(session).ends_us - owner_.world().clock_us();
  owner_.world().later(std::chrono::microseconds{left}, [this, session] { check(session); });
}

void ensemble::check(std::int64_t session) {
  auto const found = sessions_.find(session);
  if (found == sessions_.end()) return;
  if (!owner_.is_up()) touch(session);
  if (owner_.world().clock_us() < found->second.ends_us) return check_later(session);
  owner_.world().note(owner_.name(), "session " + std::to_string(session) + " has ended");
  end(session);
}

void ensemble::end(std::int64_t session) {
  if (sessions_.erase(session) == 0) return;
  transaction t;
  t.what = transaction::kind::close_session;
  t.session = session;
  apply(t);
  auto const all = attached_;
  for (attached const& one : all) {
    if (one.session == session) one.who->closed("the session has ended");
  }
}

void ensemble::forget(peer const& p) {
  std::erase_if(attached_, [&](attached const& a) { return a.who == &p; });
  for (auto& [path, watchers] : watches_) std::erase(watchers, &p);
}

void ensemble::lose_data() {
  tree_ = {};
  transactions_ = 0;
  sessions_.clear();
  watches_.clear();
  granted_.clear();
}

// ------------------------------------------------------------------------------------------------------------ requests

void ensemble::ask(peer& p, zookeeper::request const& r) {
  attached* const from = find(p);
  if (from == nullptr) return;
  touch(from->session);
  if (std::holds_alternative<zookeeper::ping>(r)) return p.answered_ping(tree_.last());
  if (zookeeper::is_write(r)) return decide(*from, r);
  if (auto const* const a = std::get_if<zookeeper::add_auth>(&r)) {
    from->users.insert(a->secret);
    return p.answered({});
  }
  if (auto const* const get = std::get_if<zookeeper::get_acl>(&r)) return p.answered(read_rights(*get, *from));
  zookeeper::reply answer = tree_.read(r, from->users);
  auto const* const get = std::get_if<zookeeper::get_data>(&r);
  if (get != nullptr && get->watch && answer.what == zookeeper::status::ok) watch(get->path, p);
  p.answered(std::move(answer));
}

void ensemble::decide(attached& from, zookeeper::request const& r) {
  peer& p = *from.who;
  transaction t = tree_.prepare(r, from.session, from.users);
  apply(t);
  note_decision(p, t);
  zookeeper::reply answer{tree_.last(), t.why, {}};
  if (t.what == transaction::kind::create) answer.content = zookeeper::created{t.path, tree_.find(t.path)->stat()};
  p.answered(std::move(answer));
}

void ensemble::apply(transaction& t) {
  t.zxid = first_epoch + ++transactions_;
  t.at_ms = owner_.world().clock_us() / 1000;
  std::set<std::string> folders;
  for (auto const& one : tree_.apply(t)) {
    folders.emplace(node_tree::parent_of(one.path));
    if (one.what == zookeeper::notice::event::deleted) granted_.erase(one.path);
    auto const watched = watches_.extract(one.path);
    if (watched.empty()) continue;
    for (peer* const p : watched.mapped()) p->noticed({one.what, 3, one.path});
  }
  for (std::string const& folder : folders) report_grants(folder);
}

zookeeper::reply ensemble::read_rights(zookeeper::get_acl const& of, attached const& by) const {
  auto const [n, why] = tree_.readable(of.path, by.users);
  zookeeper::reply answer{tree_.last(), why, {}};
  if (n != nullptr) answer.content = rights_of(*n);
  return answer;
}

/// A server tells a connection once, however often it has asked.
void ensemble::watch(std::string const& path, peer& p) {
  std::vector<peer*>& watching = watches_[path];
  if (std::find(watching.begin(), watching.end(), &p) == watching.end()) watching.push_back(&p);
}

// --------------------------------------------------------------------------------------------------------------- locks

/// As conch's clients understand the folder of a lock.
void ensemble::add_places(std::string const& folder, std::vector<place>& to) const {
  node_tree::node const* const at = tree_.find(folder);
  if (at == nullptr || !is_folder_of_a_lock(*at)) return;
  node_tree::node const* const root = tree_.find(node_tree::parent_of(folder));
  std::int64_t const birth = root->created_ms * 1000 - protocol::fence_epoch_us;
  std::vector<std::string> const names(at->children.begin(), at->children.end());
  std::string const lock = zookeeper::decoded(node_tree::name_of(folder)).value_or(folder);
  for (std::string const& name : names) {
    auto const read = zookeeper::read_node_name(name);
    if (!read) continue;
    std::string path = folder + '/' + name;
    std::int64_t const fence = birth + tree_.find(path)->created;
    bool const is_granted = zookeeper::judge(names, name).is == zookeeper::verdict::kind::granted;
    to.push_back({std::move(path), lock, std::string{read->client}, read->terms.kind, fence, is_granted});
  }
}

std::vector<ensemble::place> ensemble::places() const {
  std::vector<place> all;
  for (auto const& [path, n] : tree_.nodes()) add_places(path, all);
  return all;
}

/// Those that are new.
void ensemble::report_grants(std::string const& folder) {
  std::vector<place> all;
  add_places(folder, all);
  for (place const& one : all) {
    if (!one.is_granted || !granted_.insert(one.path).second) continue;
    owner_.granted(one.lock, one.kind, one.fence);
    if (!owner_.world().notes()) continue;
    owner_.world().note(owner_.name_of(one.client), owner_.name() + " grants \"" + one.lock + "\", fence " +
                                                        std::to_string(one.fence * engine::hand_offs_per_grant));
  }
}

void ensemble::remove(std::string const& path) {
  transaction t;
  t.what = transaction::kind::remove;
  t.path = path;
  apply(t);
}

/// Only what happens in the queue of a lock: nodes that every client has say nothing to the reader of a trace.
void ensemble::note_decision(peer const& of, transaction const& t) {
  if (!owner_.world().notes() || !zookeeper::read_node_name(node_tree::name_of(t.path))) return;
  bool const is_in_line = t.what == transaction::kind::create && !granted_.contains(t.path);
  if (t.what != transaction::kind::remove && !is_in_line) return;
  std::string_view const folder = node_tree::name_of(node_tree::parent_of(t.path));
  std::string const lock = zookeeper::decoded(folder).value_or(std::string{folder});
  owner_.world().note(of.process(), owner_.name() + (is_in_line ? ": acquire \"" + lock + "\": in line"
                                                                : ": release \"" + lock + "\": released"));
}

}  // namespace conch::simulated
