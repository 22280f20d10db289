#include "zookeeper/differential.hpp"

#include "base/readable.hpp"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

namespace conch::test {

using namespace zookeeper;
using namespace std::chrono_literals;
using sim::millisecond;
using sim::zookeeper_model;

namespace {

constexpr auto patience = 60s;
constexpr sim::nanos a_while = 5 * millisecond;  // until the model has said all that there is to say

zookeeper_model::settings settings_of(zookeeper_ensemble const& real, std::uint64_t seed) {
  zookeeper_model::settings s;
  s.servers = real.size();
  s.tick = 500 * millisecond;
  s.shortest_session = 1000 * millisecond;
  s.longest_session = std::chrono::nanoseconds{zookeeper_differential::long_session}.count();
  s.sync_limit = 100;
  s.latency = real.size() == 1 ? 0 : millisecond / 10;
  s.check_containers = 1'000'000 * sim::second;  // that of the real servers is an hour
  s.seed = seed;
  return s;
}

std::vector<std::size_t> with_the_leader_first(std::size_t servers, std::size_t leader) {
  std::vector<std::size_t> all(servers);
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::swap(all.front(), all.at(leader));
  return all;
}

/// Whole: what is compared must not be cut short.
std::string readable(std::string_view bytes) { return conch::readable(bytes, bytes.max_size()); }

struct request_words {
  std::string operator()(ping const&) const { return "ping"; }
  std::string operator()(add_auth const& a) const { return "authenticate " + a.scheme + ' ' + a.secret; }
  std::string operator()(create const& c) const {
    return "create " + readable(c.path) + " kind " + std::to_string(static_cast<int>(c.kind)) +
           (c.who == access::anyone ? "" : " for its creator");
  }
  std::string operator()(zookeeper::remove const& r) const { return "remove " + readable(r.path); }
  std::string operator()(get_data const& g) const { return "get " + readable(g.path) + (g.watch ? " and watch" : ""); }
  std::string operator()(get_children const& g) const { return "list " + readable(g.path); }
  std::string operator()(set_data const& s) const { return "set " + readable(s.path); }
  std::string operator()(sync const&) const { return "sync"; }
  std::string operator()(get_acl const& g) const { return "rights of " + g.path; }
  std::string operator()(close_session const&) const { return "close the session"; }
};

template <class Numbers>
struct words_of {
  Numbers& of;
  std::string const& folder;

  std::string zxid(std::int64_t z) const { return z == 0 ? "0" : std::to_string(z - of.first_zxid); }
  std::string owner(std::int64_t session) const {
    if (session == 0) return "nobody";
    auto const at = of.sessions.find(session);
    return at == of.sessions.end() ? "a stranger" : "session " + std::to_string(at->second);
  }
  std::string node(stat const& s, bool is_root) const {
    if (is_root) return "the root";
    return "made " + zxid(s.created) + " changed " + zxid(s.modified) + " version " + std::to_string(s.version) +
           " owner " + owner(s.owner) + " children " + std::to_string(s.children);
  }
  std::string reply_words(reply const& r, bool of_root) const {
    std::string text = "answer " + std::to_string(static_cast<int>(r.what)) + " at " + zxid(r.zxid);
    if (auto const* const c = std::get_if<created>(&r.content))
      text += " created " + readable(c->path) + ' ' + node(c->node, false);
    if (auto const* const d = std::get_if<data>(&r.content))
      text += " data " + readable(d->bytes) + ' ' + node(d->node, of_root);
    if (auto const* const c = std::get_if<children>(&r.content)) {
      auto names = c->names;
      // What the model does not have, and what was made before.
      std::erase_if(names, [this](std::string const& name) {
        return name == "zookeeper" || (name.starts_with("run") && '/' + name != folder);
      });
      std::sort(names.begin(), names.end());
      for (std::string const& name : names) text += ' ' + readable(name);
    }
    return text;
  }
};

std::string notice_words(notice const& n) {
  return "event " + std::to_string(static_cast<int>(n.what)) + " state " + std::to_string(n.session_state) + ' ' +
         readable(n.path);
}

bool is_of_root(request const& r) {
  auto const* const g = std::get_if<get_data>(&r);
  return g != nullptr && g->path == "/";
}

bool is_event(std::string const& words) { return words.starts_with("event "); }

/// Those without an answer in between.
void sort_events(std::vector<std::string>& all) {
  for (auto from = all.begin(); from != all.end();) {
    auto const begin = std::find_if(from, all.end(), is_event);
    from = std::find_if_not(begin, all.end(), is_event);
    std::sort(begin, from);
  }
}

}  // namespace

zookeeper_differential::zookeeper_differential(zookeeper_ensemble& real, std::string folder, std::uint64_t seed)
    : folder_{std::move(folder)},
      real_at_{with_the_leader_first(real.size(), real.leader())},
      ensemble_{real},
      looks_{real.port(real_at_.front()), long_session},
      model_{settings_of(real, seed), events_, now_, *this} {
  pass(sim::second);
  modelled_at_ = with_the_leader_first(real.size(), *model_.leader());
  connection const c = open(0);
  // What is counted begins here.
  create const first{folder_, {}, node_kind::persistent, access::anyone};
  all_[c].real->send(first);
  model_.ask(all_[c].modelled, first);
  pass(a_while);
  auto const made = all_[c].real->next_message(patience);
  auto const* const answer = made ? std::get_if<reply>(&*made) : nullptr;
  if (answer == nullptr || answer->what != status::ok) throw std::runtime_error{"cannot make " + folder_};
  of_real_.first_zxid = answer->zxid;
  of_model_.first_zxid = model_.truth().last();
  heard_by_modelled_[all_[c].modelled].said.clear();
}

zookeeper_differential::~zookeeper_differential() {
  auto const end = [](zookeeper_client& of) {
    try {
      of.send(close_session{});
      (void)of.ends(patience);
    } catch (std::runtime_error const&) {  // it was closed already
    }
  };
  end(looks_);
  for (one& o : all_) {
    if (o.real) end(*o.real);
  }
}

// ------------------------------------------------------------------------------------------------------- the model

void zookeeper_differential::greeted(zookeeper_model::connection_id c, connect_response const& r) { greetings_[c] = r; }

void zookeeper_differential::answered(zookeeper_model::connection_id c, request const& to, reply const& r) {
  heard_by_modelled_[c].said.push_back(words_of<numbers>{of_model_, folder_}.reply_words(r, is_of_root(to)));
}

void zookeeper_differential::answered_ping(zookeeper_model::connection_id c, std::int64_t zxid) {
  heard_by_modelled_[c].said.push_back("pong at " + words_of<numbers>{of_model_, folder_}.zxid(zxid));
}

void zookeeper_differential::noticed(zookeeper_model::connection_id c, notice const& n) {
  heard_by_modelled_[c].said.push_back(notice_words(n));
}

void zookeeper_differential::closed(zookeeper_model::connection_id c) { heard_by_modelled_[c].closed = true; }

void zookeeper_differential::pass(sim::nanos length) {
  sim::nanos const until = now_ + length;
  while (!events_.empty() && events_.next() <= until) events_.run_next([this](sim::nanos at) { now_ = at; });
  now_ = until;
}

// ----------------------------------------------------------------------------------------------------- connections

zookeeper_differential::connection zookeeper_differential::greet(std::size_t server,
                                                                 zookeeper_client::resumption const& real,
                                                                 connect_request const& modelled) {
  connection const c = all_.size();
  trace(c,
        "connects to " + std::to_string(server) +
            (real.greeting.session == 0 ? ""
                                        : " as " + words_of<numbers>{of_real_, folder_}.owner(real.greeting.session)));
  one& o = all_.emplace_back();
  o.server = server;
  o.modelled = model_.connect(modelled_at_[server]);
  model_.greet(o.modelled, modelled);
  pass(a_while);
  auto const words = [this](connect_response const& r, numbers& of) {
    if (r.timeout_ms == 0) return std::string{"no session"};
    return words_of<numbers>{of, folder_}.owner(r.session) + " for " + std::to_string(r.timeout_ms) +
           " ms, a password of " + std::to_string(r.password.size());
  };
  std::optional<connect_response> of_real;
  // A server that does not know yet what the client has seen closes the connection; a little later it knows.
  bool const is_from_future = modelled.last_seen == INT64_MAX;
  for (auto const until = std::chrono::steady_clock::now() + patience;
       !of_real && std::chrono::steady_clock::now() < until;) {
    o.real = std::make_unique<zookeeper_client>(ensemble_.port(real_at_[server]));
    o.real->keep_order();
    try {
      of_real = o.real->resume(real);
    } catch (zookeeper_connection_ended const&) {
      if (is_from_future) break;
    }
  }
  auto const of_model = greetings_.find(o.modelled);
  if (of_real && of_model != greetings_.end() && real.greeting.session == 0) {
    ++sessions_;
    of_real_.sessions[of_real->session] = sessions_;
    of_model_.sessions[of_model->second.session] = sessions_;
  }
  std::string const said = of_real ? words(*of_real, of_real_) : "the connection ended";
  std::string const expected =
      of_model == greetings_.end() ? "the connection ended" : words(of_model->second, of_model_);
  if (said != expected) fail(c, said, expected);
  if (of_real && of_real->timeout_ms != 0) {
    o.in_model = of_model->second;
    o.last = o.real->to_resume();
  }
  // It may have ended this connection, or an earlier one of that session.
  for (connection i = 0; i < all_.size(); ++i) {
    if (all_[i].real && heard_by_modelled_[all_[i].modelled].closed) compare(i);
  }
  return c;
}

zookeeper_differential::connection zookeeper_differential::open(std::size_t server, std::chrono::milliseconds timeout) {
  connect_request const both{0, static_cast<std::int32_t>(timeout.count()), 0, {}};
  return greet(server, {both, 0}, both);
}

zookeeper_differential::connection zookeeper_differential::resume(connection c, std::size_t server,
                                                                  bool with_the_password) {
  if (all_.at(c).real) all_[c].last = all_[c].real->to_resume();
  zookeeper_client::resumption real = all_[c].last.value();
  // Numbers of requests that no other connection of this session uses: a server would take the one for the other.
  real.last_xid += 100'000;
  for (one const& o : all_) {
    if (!o.real || !o.last || o.last->greeting.session != real.greeting.session) continue;
    auto const since = o.real->to_resume();
    real.last_xid = std::max(real.last_xid, since.last_xid + 100'000);
    real.greeting.last_seen = std::max(real.greeting.last_seen, since.greeting.last_seen);
  }
  connect_request modelled{0, real.greeting.timeout_ms, all_[c].in_model.session, all_[c].in_model.password};
  if (!with_the_password) real.greeting.password = modelled.password = std::string(16, 'x');
  return greet(server, real, modelled);
}

void zookeeper_differential::greet_from_the_future(std::size_t server) {
  connect_request const both{INT64_MAX, 30'000, 0, {}};
  (void)greet(server, {both, 0}, both);
}

bool zookeeper_differential::is_former(connection c) const {
  return std::any_of(all_.begin() + static_cast<std::ptrdiff_t>(c) + 1, all_.end(),
                     [&](one const& o) { return o.in_model.session == all_[c].in_model.session; });
}

void zookeeper_differential::drop(connection c) {
  trace(c, "drops its connection");
  compare(c);
  one& o = all_.at(c);
  if (!o.real) return;
  o.last = o.real->to_resume();
  o.real.reset();
  model_.disconnect(o.modelled);
}

// -------------------------------------------------------------------------------------------------------- requests

void zookeeper_differential::ask(connection c, std::vector<request> const& all) {
  one& o = all_.at(c);
  for (request const& r : all) trace(c, std::visit(request_words{}, r));
  bool const ends =
      std::any_of(all.begin(), all.end(), [](request const& r) { return std::holds_alternative<close_session>(r); });
  if (ends) compare_all();
  if (!o.real) return;
  ends_ = ends_ || ends;
  requests_ += all.size();
  try {
    o.real->send_all(all);
  } catch (zookeeper_connection_ended const&) {  // seen when it is read
  }
  for (request const& r : all) model_.ask(o.modelled, r);
  pass(a_while);
  compare(c);
  if (ends) compare_all();
}

void zookeeper_differential::expire(connection c, std::string const& node) {
  compare_all();
  one& o = all_.at(c);
  if (!o.real) return;
  trace(c, "is silent until its session has ended");
  o.last = o.real->to_resume();
  pass(o.in_model.timeout_ms * millisecond + 2 * sim::second);
  ends_ = true;
  compare(c);
  if (o.real) fail(c, "is connected", "is connected");
  auto const until = std::chrono::steady_clock::now() + patience;
  while (looks_.has(node)) {
    if (std::chrono::steady_clock::now() > until) fail(c, "the session goes on", "the session ended");
    std::this_thread::sleep_for(5ms);
  }
  compare_all();
}

request zookeeper_differential::barrier(connection c) const {
  if (servers() > 1 && all_.at(c).server == 0) return set_data{folder_, {}};
  return sync{"/"};
}

void zookeeper_differential::compare_all() {
  for (connection c = 0; c < all_.size(); ++c) {
    if (!all_[c].real) continue;
    request const last = barrier(c);
    try {
      all_[c].real->send(last);
    } catch (zookeeper_connection_ended const&) {
    }
    model_.ask(all_[c].modelled, last);
    ++requests_;
    pass(a_while);
    compare(c, ends_);
  }
  ends_ = false;
}

/// The real one is read until it has said as much.
void zookeeper_differential::compare(connection c, bool in_any_order) {
  one& o = all_.at(c);
  if (!o.real) return;
  side& modelled = heard_by_modelled_[o.modelled];
  std::vector<std::string>& real = o.heard_by_real.said;
  words_of<numbers> const words{of_real_, folder_};
  while (real.size() < modelled.said.size()) {
    auto const m = o.real->next_message(patience);
    if (!m) break;
    bool const of_root = modelled.said[real.size()].find("the root") != std::string::npos;
    if (auto const* const r = std::get_if<reply>(&*m)) real.push_back(words.reply_words(*r, of_root));
    else if (auto const* const n = std::get_if<notice>(&*m)) real.push_back(notice_words(*n));
    else real.push_back("pong at " + words.zxid(std::get<zookeeper_client::pong>(*m).zxid));
  }
  if (in_any_order || ends_) {
    sort_events(real);
    sort_events(modelled.said);
  }
  // Another connection has closed its session. The server ends this one, and may not write what it had to say before.
  if (modelled.closed && is_former(c) && real.size() < modelled.said.size() && o.real->ends(0ms))
    modelled.said.resize(real.size());
  if (real.size() < modelled.said.size())
    fail(c, o.real->ends(0ms) ? "the connection ended" : "nothing for a minute", modelled.said[real.size()]);
  for (std::size_t i = 0; i < real.size(); ++i) {
    if (real[i] != modelled.said[i]) fail(c, real[i], modelled.said[i]);
  }
  real.clear();
  modelled.said.clear();
  if (!modelled.closed) return;
  if (!o.real->ends(patience)) fail(c, "the connection goes on", "the connection ended");
  if (auto const more = o.real->next_message(0ms)) fail(c, "more was said before the end", "the connection ended");
  if (o.last) o.last = o.real->to_resume();
  o.real.reset();
}

void zookeeper_differential::trace(connection c, std::string words) {
  trace_.push_back(std::to_string(c) + ": " + std::move(words));
}

void zookeeper_differential::fail(connection c, std::string const& real, std::string const& modelled) const {
  std::string text = "connection " + std::to_string(c) + " of the server: " + real + "\nconnection " +
                     std::to_string(c) + " of the model:  " + modelled + "\nbefore it:\n";
  for (std::size_t i = trace_.size() < 60 ? 0 : trace_.size() - 60; i < trace_.size(); ++i) text += trace_[i] + '\n';
  throw zookeeper_difference{text};
}

}  // namespace conch::test
