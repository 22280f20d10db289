// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/node_tree.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace conch::simulated {

using zookeeper::notice;
using zookeeper::status;

namespace {

/// PathUtils.validatePath. Only the disallowed characters below U+0080 and the controls after them are known here.
bool is_path(std::string_view path) {
  if (path.empty() || path.front() != '/') return false;
  if (path.size() == 1) return true;
  if (path.back() == '/') return false;
  for (std::size_t i = 0; i < path.size(); ++i) {
    auto const c = static_cast<unsigned char>(path[i]);
    if (c <= 0x1f || c == 0x7f) return false;
    if (c == 0xc2 && i + 1 < path.size() && static_cast<unsigned char>(path[i + 1]) <= 0x9f) return false;
  }
  for (std::size_t from = 1; from <= path.size();) {
    std::size_t const to = std::min(path.find('/', from), path.size());
    std::string_view const name = path.substr(from, to - from);
    if (name.empty() || name == "." || name == "..") return false;
    from = to + 1;
  }
  return true;
}

/// All that is asked of a path before its parent is looked up.
bool has_parent(std::string_view path) {
  return path.find('/') != std::string_view::npos && path.find('\0') == std::string_view::npos;
}

}  // namespace

/// As Java's %010d.
std::string node_tree::sequence(std::int32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "%010d", number);
  return text;
}

/// What is looked at first tells the error.
transaction node_tree::prepare(zookeeper::request const& r, std::int64_t session,
                               std::set<std::string> const& who) const {
  using kind = transaction::kind;
  transaction t;
  t.session = session;
  auto const fails = [&t](status why) {
    t.what = kind::failure;
    t.why = why;
    return t;
  };
  if (auto const* const c = std::get_if<zookeeper::create>(&r)) {
    bool const sequential = c->kind == zookeeper::node_kind::ephemeral_sequential;
    bool const ephemeral = sequential || c->kind == zookeeper::node_kind::ephemeral;
    if (!has_parent(c->path)) return fails(status::bad_arguments);
    if (c->who == zookeeper::access::creator_only) {
      if (who.empty()) return fails(status::invalid_acl);
      t.users = who;
    }
    node const* const parent = find(parent_of(c->path));
    if (parent == nullptr) return fails(status::no_node);
    if (!parent->allows(who)) return fails(status::no_auth);
    t.path = sequential ? c->path + sequence(parent->next_child) : c->path;
    if (!is_path(t.path)) return fails(status::bad_arguments);
    if (find(t.path) != nullptr) return fails(status::node_exists);
    if (parent->owner != 0 && parent->owner != container) return fails(status::no_children_for_ephemerals);
    t.what = kind::create;
    t.data = c->data;
    t.owner = ephemeral ? session : c->kind == zookeeper::node_kind::container ? container : 0;
    return t;
  }
  if (auto const* const d = std::get_if<zookeeper::remove>(&r)) {
    if (!has_parent(d->path) || d->path == "/") return fails(status::bad_arguments);
    node const* const parent = find(parent_of(d->path));
    if (parent == nullptr) return fails(status::no_node);
    if (!parent->allows(who)) return fails(status::no_auth);
    node const* const n = find(d->path);
    if (n == nullptr) return fails(status::no_node);
    if (!n->children.empty()) return fails(status::not_empty);
    t.what = kind::remove;
    t.path = d->path;
    return t;
  }
  if (auto const* const s = std::get_if<zookeeper::set_data>(&r)) {
    if (!is_path(s->path)) return fails(status::bad_arguments);
    node const* const n = find(s->path);
    if (n == nullptr) return fails(status::no_node);
    if (!n->allows(who)) return fails(status::no_auth);
    t.what = kind::set_data;
    t.path = s->path;
    t.data = s->data;
    return t;
  }
  if (std::holds_alternative<zookeeper::close_session>(r)) {
    t.what = kind::close_session;
    return t;
  }
  return fails(status::unimplemented);
}

std::pair<node_tree::node const*, status> node_tree::readable(std::string_view path,
                                                              std::set<std::string> const& who) const {
  node const* const n = find(path);
  if (n == nullptr) return {nullptr, status::no_node};
  if (!n->allows(who)) return {nullptr, status::no_auth};
  return {n, status::ok};
}

zookeeper::reply node_tree::read(zookeeper::request const& r, std::set<std::string> const& who) const {
  zookeeper::reply answer{last_, status::ok, {}};
  auto const look = [&](std::string const& path) {
    auto const [n, why] = readable(path, who);
    answer.what = why;
    return n;
  };
  if (auto const* const get = std::get_if<zookeeper::get_data>(&r)) {
    if (node const* const n = look(get->path)) answer.content = zookeeper::data{n->data, n->stat()};
  } else if (auto const* const list = std::get_if<zookeeper::get_children>(&r)) {
    if (node const* const n = look(list->path))
      answer.content = zookeeper::children{{n->children.begin(), n->children.end()}};
  }
  return answer;
}

std::vector<std::string> node_tree::spent_containers() const {
  std::vector<std::string> found;
  for (auto const& [path, n] : nodes_) {
    if (n.owner == container && n.children.empty() && n.had_children) found.push_back(path);
  }
  return found;
}

void node_tree::drop(std::string const& path, std::vector<fired>& told) {
  auto const at = nodes_.find(path);
  if (at == nodes_.end()) return;
  if (auto const of = ephemerals_.find(at->second.owner); of != ephemerals_.end()) of->second.erase(path);
  nodes_.erase(at);
  if (node* const parent = find(parent_of(path))) parent->children.erase(std::string{name_of(path)});
  told.push_back({notice::event::deleted, path});
}

std::vector<node_tree::fired> node_tree::apply(transaction const& t) {
  using kind = transaction::kind;
  std::vector<fired> told;
  last_ = t.zxid;
  switch (t.what) {
    case kind::failure: break;
    case kind::create: {
      node& parent = *find(parent_of(t.path));
      parent.children.emplace(name_of(t.path));
      if (parent.next_child < std::numeric_limits<std::int32_t>::max()) ++parent.next_child;
      parent.had_children = true;
      node& n = nodes_[t.path];
      n.data = t.data;
      n.users = t.users;
      n.created = n.modified = t.zxid;
      n.created_ms = n.modified_ms = t.at_ms;
      n.owner = t.owner;
      n.next_child = t.first_child;
      if (t.owner != 0 && t.owner != container) ephemerals_[t.owner].insert(t.path);
      told.push_back({notice::event::created, t.path});
      break;
    }
    case kind::remove: drop(t.path, told); break;
    case kind::set_data:
      if (node* const n = find(t.path)) {
        n->data = t.data;
        n->modified = t.zxid;
        n->modified_ms = t.at_ms;
        ++n->version;
        told.push_back({notice::event::changed, t.path});
      }
      break;
    case kind::open_session: sessions_[t.session] = t.timeout_ms; break;
    case kind::close_session: {
      sessions_.erase(t.session);
      auto const of = ephemerals_.find(t.session);
      if (of == ephemerals_.end()) break;
      std::set<std::string> const paths = std::move(of->second);
      ephemerals_.erase(of);
      for (std::string const& path : paths) drop(path, told);
      break;
    }
  }
  return told;
}

}  // namespace conch::simulated
