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
  cleanups_.interrupted();
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
  std::vector<queue_place*> asking;
  auto const look = [&](queue_place& p) {
    if (!p.waits()) return;
    ++p.references;
    asking.push_back(&p);
  };
  on_.all.for_each(look);
  for (queue_place* p : asking) {
    if (p->waits()) line_.fail(*p, why, now);
    on_.all.drop(*p);
  }
  on_.env.up.connection_refused(why, now);
}

void arrivals::proved(time_point now) {
  std::vector<queue_place*> to_look_at;
  on_.all.for_each_active([&](queue_place& p) {
    if (p.made_in != on_.sent.session_number() || !(p.has_turn || p.wants_renewal)) return;
    ++p.references;
    to_look_at.push_back(&p);
  });
  for (queue_place* p : to_look_at) {
    if (p->has_turn && (p->waits() || p->state == place_state::leaving)) line_.take_turn(*p, p->by_push, now);
    else if (p->state == place_state::owned && p->wants_renewal && p->may_renew(now) && held_.prolong(*p, now))
      on_.env.up.extended(*p, now);
    on_.all.drop(*p);
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
    case about::clean_up: cleanups_.answered(r, a, now); break;
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
  std::vector<queue_place*> waiting = on_.all.take_waiting(path);
  for (queue_place* p : waiting) ++p->references;
  for (queue_place* p : waiting) {
    if (p->state == place_state::owned && p->node == path) held_.removed(*p, now);
    else line_.gone(*p, path, now);
    on_.all.drop(*p);
  }
}

void arrivals::node_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  auto const* const made = a.what == status::ok ? std::get_if<created>(&a.content) : nullptr;
  if (p.number != r.number || p.state == place_state::idle) {  // given up meanwhile
    return cleanups_.came_of(r.number, made != nullptr ? made->path : std::string{}, now);
  }
  if (made != nullptr) {
    line_.found(p, made->path, made->node.created, now);
  } else if (p.state == place_state::leaving && refusal_of(a.what).then == remedy::none) {
    line_.gone_from_line(p, now);
  } else if (a.what == status::no_node && p.folders_made < 3) {
    ++p.folders_made;
    on_.sent.send(about::folder, create{p.folder, {}, node_kind::container, on_.session.nodes().who()}, p, nullptr,
                  now);
    line_.make_node(p, now);
  } else {
    p.written = refusal_of(a.what).then != remedy::none;  // else nothing was made
    line_.request_refused(p, a.what, "create a node in " + p.folder, now);
  }
}

void arrivals::rights_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  auto const* const who_may = std::get_if<rights>(&a.content);
  if (who_may == nullptr) {
    p.checked_in = 0;  // it is not there yet, or the next request says why
    return;
  }
  if (p.number != r.number || !p.waits() || !writers_beside(on_.session.nodes().own_rights(), who_may->all).anyone)
    return;
  p.checked_in = 0;
  line_.fail(p,
             make_error_code(errc::access_denied, on_.session.server() + ": others may change " + p.folder +
                                                      ", so that this lock is not safe behind user and " +
                                                      "password of the URL: restrict it (setAcl), or remove it (lock " +
                                                      readable(p.name) + ')'),
             now);
}

/// The node of the place is asked for after it. If the folder cannot be created, only this lock is affected.
void arrivals::folder_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  bool const there = a.what == status::ok || a.what == status::node_exists;
  if (there || p.number != r.number || !p.waits()) return;
  if (a.what == status::no_node) {  // with all locks; a new connection makes it again
    return on_.session.drop("the root was removed: " + on_.env.root, now);
  }
  line_.request_refused(p, a.what, "create " + p.folder, now);
}

void arrivals::list_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  if (p.number != r.number) return;
  --p.lists;
  if (p.node.empty() || p.leave_sent || p.state == place_state::idle || p.state == place_state::owned) return;
  if (a.what == status::ok) {
    auto const* const all = std::get_if<children>(&a.content);
    if (all == nullptr) return on_.session.drop("an answer of the wrong kind", now);
    line_.look(p, *all, now);
    p.later_since = {};
    on_.pause.begin_anew();
  } else if (a.what != status::no_node) {
    line_.request_refused(p, a.what, "list " + p.folder, now);
  } else {
    line_.has_no_node(p, now);
  }
}

void arrivals::watch_answer(in_flight const& r, reply const& a, time_point now) {
  if (auto const* const node = std::get_if<data>(&a.content)) return interval_seen(r.path, node->node, now);
  if (a.what == status::ok) return;
  if (a.what == status::no_node) {
    is_gone(r.path, now);
    return;
  }
  std::vector<queue_place*> const waiting = on_.all.take_waiting(r.path);  // the server notifies them of nothing
  for (queue_place* p : waiting) ++p->references;
  for (queue_place* p : waiting) {
    if (p->node == r.path) p->watches_itself = false;
    else line_.request_refused(*p, a.what, "read " + r.path, now);
    on_.all.drop(*p);
  }
}

void arrivals::leave_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  if (p.number != r.number || !p.leave_sent || !(p.waits() || p.state == place_state::leaving)) return;
  bool const is_gone = a.what == status::ok || a.what == status::no_node;
  bool const was_leaving = p.state == place_state::leaving;
  error_code const refusal = p.refusal;
  while (!p.sharers.empty()) line_.fail(*p.sharers.front(), refusal, now);  // they ask for the same
  shared_.become_idle(p, now);
  if (!is_gone) cleanups_.add(p, nullptr, now);
  if (was_leaving) on_.env.up.left(p, now);
  else if (refusal) on_.env.up.failed(p, refusal, now);
  else on_.env.up.busy(p, now);
}

void arrivals::keep_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  if (p.number == r.number && p.state != place_state::idle) line_.kept(p, a, now);
}

/// The list behind it shows whether the node is gone.
void arrivals::kept_end_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  if (a.what == status::ok || a.what == status::no_node || p.number != r.number) return;
  line_.request_refused(p, a.what, "remove " + r.path, now);
}

/// If the node that is watched keeps the lock.
void arrivals::interval_seen(std::string const& path, stat const& keep, time_point now) {
  auto const name = read_keep_name(last_of(path));
  if (!name) return;
  for (queue_place* p : on_.all.waiting_for(path)) line_.interval_measured(*p, keep, name->interval_ms, now);
}

void arrivals::search_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  bool const is_given_up = r.of_cleanup != nullptr || p.number != r.number || p.state == place_state::idle;
  if (a.what != status::ok && a.what != status::no_node) {
    std::string const asked = "list " + p.folder;
    if (!is_given_up) return line_.request_refused(p, a.what, asked, now);
    cleanup* const pending = cleanups_.find(r.number);
    if (pending == nullptr) return;
    if (refusal_of(a.what).then != remedy::none) return cleanups_.send_later(*pending, now);
    return cleanups_.refused(*pending, to_error(a.what, asked, on_.session.server()), now);
  }
  std::string found;
  if (auto const* const all = std::get_if<children>(&a.content)) {
    auto const is_it = [&](std::string const& one) {
      auto const name = read_node_name(one);
      return name && name->client == on_.env.client_id && name->number == r.number;
    };
    auto const one = std::find_if(all->names.begin(), all->names.end(), is_it);
    if (one != all->names.end()) found = p.path_of(*one);
  }
  if (is_given_up) return cleanups_.came_of(r.number, std::move(found), now);
  if (found.empty()) return line_.has_no_node(p, now);
  on_.sent.send(about::found, get_data{found, false}, p, nullptr, now, found);
  line_.list(p, now);
}

void arrivals::found_answer(in_flight const& r, reply const& a, time_point now) {
  queue_place& p = *r.place;
  if (p.number != r.number || p.state == place_state::idle) return cleanups_.came_of(r.number, r.path, now);
  auto const* const node = std::get_if<data>(&a.content);
  bool const is_mine = node != nullptr && node->node.owner == on_.session.id();
  if (is_mine) return line_.found(p, r.path, node->node.created, now);
  if (node != nullptr || a.what == status::no_node) return line_.has_no_node(p, now);
  line_.request_refused(p, a.what, "read " + r.path, now);
}

}  // namespace conch::zookeeper
