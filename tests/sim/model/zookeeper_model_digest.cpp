// One number for all that an ensemble knows, to compare states.
#include "sim/digest.hpp"
#include "sim/model/zookeeper_model.hpp"

namespace conch::sim {

namespace {

template <class... Numbers>
void add(digest& d, Numbers... numbers) {
  (d.add(static_cast<std::uint64_t>(numbers)), ...);
}

void add(digest& d, zookeeper_tree const& tree) {
  for (auto const& [path, n] : tree.nodes()) {
    d.add(path);
    d.add(n.data);
    add(d, n.created, n.created_ms, n.modified, n.version, n.next_child, n.had_children, n.owner);
  }
  for (auto const& [session, timeout] : tree.sessions()) add(d, session, timeout);
  add(d, tree.last());
}

}  // namespace

void zookeeper_model::add_to(digest& d) const {
  for (server const& s : servers_) {
    add(d, s.is, s.serving, s.epoch, s.counter, s.committed, s.written);
    sim::add(d, s.tree);
    for (auto const& [session, t] : s.sessions)
      add(d, session, t.timeout_ms, t.expires, t.closing, t.owner.value_or(servers_.size()));
    for (auto const& [number, by] : s.questions) add(d, number, by);
  }
  for (auto const& [id, c] : connections_) {
    add(d, id, c.server, c.session, c.timeout_ms, c.greeted, c.questions.size(), c.opening);
    for (std::string const& path : c.watches) d.add(path);
  }
  add(d, last_connection_, last_question_, last_session_);
}

}  // namespace conch::sim
