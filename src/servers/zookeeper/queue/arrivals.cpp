// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/arrivals.hpp"

#include "base/readable.hpp"
#include "servers/zookeeper/acl.hpp"
#include "servers/zookeeper/faults.hpp"
#include "servers/zookeeper/names.hpp"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace conch::zookeeper {

using engine::place_state;

void arrivals::opened(time_point now) {
  on_.sent.opened(now);
  rest_.rest_all();
  rest_.resume_backlog(now);
  on_.env.up.connection_changed(now);
}

void arrivals::interrupted(time_point now) {
  std::deque<in_flight> const unanswered = on_.sent.interrupted(now);
  keeps_.interrupted();
  owed_.interrupted();
  on_.all.interrupted();
  rest_.resume_backlog(now);
  for (in_flight const& one : unanswered) on_.all.drop(*one.place);
  on_.env.up.connection_changed(now);
}

void arrivals::ended(time_point now) {
  on_.sent.session_ended();
  rest_.rest_all();
  rest_.resume_backlog(now);
}

void arrivals::refused(error_code why, time_point now) {
  std::vector<standing*> asking;
  auto const look = [&](standing& s) {
    if (!s.waits()) return;
    ++s.references;
    asking.push_back(&s);
  };
  on_.all.for_each(look);
  for (standing* s : asking) {
    if (s->waits()) line_.fail(*s, why, now);
    on_.all.drop(*s);
  }
  on_.env.up.connection_refused(why, now);
}

void arrivals::proved(time_point now) {
  std::vector<standing*> to_look_at;
  on_.all.for_each_active([&](standing& s) {
    if (s.made_in != on_.sent.session_number() || !(s.has_turn || s.wants_renewal)) return;
    ++s.references;
    to_look_at.push_back(&s);
  });
  for (standing* s : to_look_at) {
    if (s->has_turn && (s->waits() || s->state == place_state::leaving)) line_.take_turn(*s, s->by_push, now);
    else if (s->state == place_state::owned && s->wants_renewal && s->may_renew(now) && held_.prolong(*s, now))
      on_.env.up.extended(*s, now);
    on_.all.drop(*s);
  }
}

void arrivals::answered(reply const& a, time_point now) {
  if (!on_.sent.has_any()) return on_.session.drop("an unexpected answer", now);
  in_flight const r = on_.sent.take(on_.all.has_rest(), now);
  switch (r.what) {
    case about::node: node_answer(r, a, now); break;
    case about::folder: folder_answer(r, a, now); break;
    case about::list: list_answer(r, a, now); break;
    case about::watch: watch_answer(r, a, now); break;
    case about::leave: leave_answer(r, a, now); break;
    case about::clean_up: owed_.answered(r, a, now); break;
    case about::search: search_answer(r, a, now); break;
    case about::rights: rights_answer(r, a, now); break;
    case about::found: found_answer(r, a, now); break;
    case about::keep: keep_answer(r, a, now); break;
    case about::keep_end: keeps_.answered(r, a, now); break;
    case about::kept_end: kept_end_answer(r, a, now); break;
    case about::stray:
    case about::nothing: break;
  }
  on_.all.drop(*r.place);
  if (on_.session.is_open() && on_.all.has_rest() && on_.sent.window().has_room()) rest_.resume_backlog(now);
}

void arrivals::noticed(notice const& n, time_point now) {
  if (n.what == notice::event::deleted) return is_gone(n.path, now);
  // It has been written to, and that has used up the watch.
  auto const waiting = on_.all.waiting_for(n.path);
  if (!waiting.empty()) on_.sent.send(about::watch, get_data{n.path, true}, *waiting.front(), nullptr, now, n.path);
}

/// A node is gone. Whatever one of its waiters does, the others are told too.
void arrivals::is_gone(std::string const& path, time_point now) {
  std::vector<standing*> waiting = on_.all.take_waiting(path);
  for (standing* s : waiting) ++s->references;
  for (standing* s : waiting) {
    if (s->state == place_state::owned && s->node == path) held_.removed(*s, now);
    else line_.gone(*s, path, now);
    on_.all.drop(*s);
  }
}

void arrivals::node_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  auto const* const made = a.what == status::ok ? std::get_if<created>(&a.content) : nullptr;
  if (s.number != r.number || s.state == place_state::idle) {  // given up meanwhile
    return owed_.came_of(r.number, made != nullptr ? made->path : std::string{}, now);
  }
  if (made != nullptr) {
    line_.found(s, made->path, made->node.created, now);
  } else if (s.state == place_state::leaving && refusal_of(a.what).then == remedy::none) {
    line_.gone_from_line(s, now);
  } else if (a.what == status::no_node && s.folders_made < 3) {
    ++s.folders_made;
    on_.sent.send(about::folder, create{s.folder, {}, node_kind::container, on_.session.nodes().who()}, s, nullptr,
                  now);
    line_.make_node(s, now);
  } else {
    s.written = refusal_of(a.what).then != remedy::none;  // else nothing was made
    line_.request_refused(s, a.what, "create a node in " + s.folder, now);
  }
}

void arrivals::rights_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  auto const* const who_may = std::get_if<rights>(&a.content);
  if (who_may == nullptr) {
    s.checked_in = 0;  // it is not there yet, or the next request says why
    return;
  }
  if (s.number != r.number || !s.waits() || !writers_beside(on_.session.nodes().own_rights(), who_may->all).anyone)
    return;
  s.checked_in = 0;
  line_.fail(s,
             make_error_code(errc::access_denied, on_.session.server() + ": others may change " + s.folder +
                                                      ", so that this lock is not safe behind user and " +
                                                      "password of the URL: restrict it (setAcl), or remove it (lock " +
                                                      readable(s.name) + ')'),
             now);
}

/// The node of the place is asked for after it. If the folder cannot be created, only this lock is affected.
void arrivals::folder_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  bool const there = a.what == status::ok || a.what == status::node_exists;
  if (there || s.number != r.number || !s.waits()) return;
  if (a.what == status::no_node) {  // with all locks; a new connection makes it again
    return on_.session.drop("the root was removed: " + on_.env.root, now);
  }
  line_.request_refused(s, a.what, "create " + s.folder, now);
}

void arrivals::list_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  if (s.number != r.number) return;
  --s.lists;
  if (s.node.empty() || s.leave_sent || s.state == place_state::idle || s.state == place_state::owned) return;
  if (a.what == status::ok) {
    auto const* const all = std::get_if<children>(&a.content);
    if (all == nullptr) return on_.session.drop("an answer of the wrong kind", now);
    line_.look(s, *all, now);
    s.later_since = {};
    on_.pause.begin_anew();
  } else if (a.what != status::no_node) {
    line_.request_refused(s, a.what, "list " + s.folder, now);
  } else {
    line_.has_no_node(s, now);
  }
}

void arrivals::watch_answer(in_flight const& r, reply const& a, time_point now) {
  if (auto const* const node = std::get_if<data>(&a.content)) return interval_seen(r.path, node->node, now);
  if (a.what == status::ok) return;
  if (a.what == status::no_node) {
    is_gone(r.path, now);
    return;
  }
  std::vector<standing*> const waiting = on_.all.take_waiting(r.path);  // the server notifies them of nothing
  for (standing* s : waiting) ++s->references;
  for (standing* s : waiting) {
    if (s->node == r.path) s->watches_itself = false;
    else line_.request_refused(*s, a.what, "read " + r.path, now);
    on_.all.drop(*s);
  }
}

void arrivals::leave_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  if (s.number != r.number || !s.leave_sent || !(s.waits() || s.state == place_state::leaving)) return;
  bool const is_gone = a.what == status::ok || a.what == status::no_node;
  bool const was_leaving = s.state == place_state::leaving;
  error_code const refusal = s.refusal;
  while (!s.riders.empty()) line_.fail(*s.riders.front(), refusal, now);  // they ask for the same
  shares_.become_idle(s, now);
  if (!is_gone) owed_.owe(s, nullptr, now);
  if (was_leaving) on_.env.up.left(s, now);
  else if (refusal) on_.env.up.failed(s, refusal, now);
  else on_.env.up.busy(s, now);
}

void arrivals::keep_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  if (s.number == r.number && s.state != place_state::idle) line_.kept(s, a, now);
}

/// The list behind it shows whether the node is gone.
void arrivals::kept_end_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  if (a.what == status::ok || a.what == status::no_node || s.number != r.number) return;
  line_.request_refused(s, a.what, "remove " + r.path, now);
}

/// If the node that is watched keeps the lock.
void arrivals::interval_seen(std::string const& path, stat const& keep, time_point now) {
  auto const name = read_keep_name(last_of(path));
  if (!name) return;
  for (standing* s : on_.all.waiting_for(path)) line_.interval_measured(*s, keep, name->interval_ms, now);
}

void arrivals::search_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  bool const is_given_up = r.of_cleanup != nullptr || s.number != r.number || s.state == place_state::idle;
  if (a.what != status::ok && a.what != status::no_node) {
    std::string const asked = "list " + s.folder;
    if (!is_given_up) return line_.request_refused(s, a.what, asked, now);
    cleanup* const owed = owed_.find(r.number);
    if (owed == nullptr) return;
    if (refusal_of(a.what).then != remedy::none) return owed_.send_later(*owed, now);
    return owed_.refused(*owed, to_error(a.what, asked, on_.session.server()), now);
  }
  std::string found;
  if (auto const* const all = std::get_if<children>(&a.content)) {
    auto const is_it = [&](std::string const& one) {
      auto const name = read_node_name(one);
      return name && name->client == on_.env.client_id && name->number == r.number;
    };
    auto const one = std::find_if(all->names.begin(), all->names.end(), is_it);
    if (one != all->names.end()) found = s.path_of(*one);
  }
  if (is_given_up) return owed_.came_of(r.number, std::move(found), now);
  if (found.empty()) return line_.has_no_node(s, now);
  on_.sent.send(about::found, get_data{found, false}, s, nullptr, now, found);
  line_.list(s, now);
}

void arrivals::found_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.place;
  if (s.number != r.number || s.state == place_state::idle) return owed_.came_of(r.number, r.path, now);
  auto const* const node = std::get_if<data>(&a.content);
  bool const is_mine = node != nullptr && node->node.owner == on_.session.id();
  if (is_mine) return line_.found(s, r.path, node->node.created, now);
  if (node != nullptr || a.what == status::no_node) return line_.has_no_node(s, now);
  line_.request_refused(s, a.what, "read " + r.path, now);
}

}  // namespace conch::zookeeper
