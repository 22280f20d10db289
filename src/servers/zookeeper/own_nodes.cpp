// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/own_nodes.hpp"

#include "base/readable.hpp"
#include "protocol/wire.hpp"
#include "servers/zookeeper/acl.hpp"
#include "servers/zookeeper/faults.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace conch::zookeeper {

namespace {

using action = own_nodes::outcome::action;

}  // namespace

own_nodes::question own_nodes::begin(std::int64_t session) {
  if (std::exchange(session_, session) != session) has_own_ = false;
  if (has_user()) return {step::authenticate, add_auth{"digest", secret_}};
  return read_root();
}

own_nodes::outcome own_nodes::answered(step of, reply const& r) {
  bool const there = r.what == status::ok || r.what == status::node_exists;
  auto const* const who_may = std::get_if<rights>(&r.content);
  switch (of) {
    case step::authenticate:
      if (r.what == status::ok) return {action::ask, read_root()};
      break;
    case step::read_root:
      if (r.what == status::ok) return root_read(r);
      if (r.what != status::no_node) break;
      parents_ = 0;
      return make_next_parent();
    case step::make_parent:
      if (there) return make_next_parent();
      break;
    case step::make_folder:
      if (there) return make_own(step::make_own);
      break;
    case step::make_own:
      has_own_ = there;
      if (there && has_user()) return {action::ask, {step::read_own_rights, get_acl{own()}}};
      if (there) return {action::open};
      break;
    case step::read_own_rights:
    case step::read_root_rights:
    case step::read_folder_rights:
      if (who_may != nullptr) return rights_read(of, *who_may);
      break;
    case step::beat:
      if (r.what == status::no_node) {  // it has been removed
        has_own_ = false;
        return make_own(step::make_own_again);
      }
      return there ? outcome{} : beat_refused(r.what);
    case step::make_own_again:
      if (!there) return beat_refused(r.what);
      has_own_ = true;
      return {};
  }
  return {action::consult};
}

own_nodes::outcome own_nodes::root_read(reply const& r) {
  auto const* const root = std::get_if<data>(&r.content);
  if (root == nullptr) return {action::drop};
  // A time beyond these gives no usable fence anyway. Clamping it keeps the product below from overflowing.
  constexpr std::int64_t last_ms = 2 * protocol::fence_limit / 1000 + protocol::fence_epoch_us / 1000;
  std::int64_t const created_ms = std::clamp<std::int64_t>(root->node.created_ms, -last_ms, last_ms);
  birth_ = created_ms * 1000 - protocol::fence_epoch_us;
  if (has_own_) return {action::open};
  return {action::ask, {step::make_folder, create{folder(), {}, node_kind::persistent, who()}}};
}

/// A user that may change the folder can replace our node by their own, whose rights are then taken for those of this
/// user.
own_nodes::outcome own_nodes::rights_read(step of, rights const& to) {
  if (of == step::read_root_rights)
    return checked(root_, to, {action::ask, {step::read_folder_rights, get_acl{folder()}}});
  if (of == step::read_folder_rights) return checked(folder(), to, {action::open});
  own_rights_ = to.all;
  return {action::ask, {step::read_root_rights, get_acl{root_}}};
}

/// User and password exist so that no other user changes the locks.
own_nodes::outcome own_nodes::checked(std::string const& path, rights const& to, outcome if_safe) const {
  strangers const others = writers_beside(own_rights_, to.all);
  if (others.anyone) {
    return {action::refuse,
            {},
            "others may change " + path + ", so that the locks of " + root_ +
                " are not safe behind user and password of the URL: restrict it (setAcl " + path +
                " auth::cdrwa, as that user), or leave user and password out"};
  }
  if (!others.named.empty()) if_safe.words = path + " can also be changed by " + readable(others.named);
  return if_safe;
}

/// Holds last as long as the requests of locks prove, so a refusal is not a reason to close the connection.
own_nodes::outcome own_nodes::beat_refused(status what) {
  if (std::exchange(logged_refused_beat_, true)) return {};
  return {action::nothing, {}, "no heartbeat: " + words_of(what, "write " + own())};
}

own_nodes::outcome own_nodes::make_next_parent() {
  if (parents_ == root_.size()) return {action::ask, read_root()};
  std::size_t const slash = root_.find('/', parents_ + 1);
  parents_ = slash == std::string::npos ? root_.size() : slash;
  return {action::ask, {step::make_parent, create{root_.substr(0, parents_), {}, node_kind::persistent, who()}}};
}

std::string own_nodes::shown(step of) const {
  switch (of) {
    case step::authenticate: return "user and password";
    case step::read_root: return "read " + root_;
    case step::make_parent: return "create " + root_.substr(0, parents_);
    case step::make_folder: return "create " + folder();
    case step::read_own_rights: return "read the ACL of " + own();
    case step::read_root_rights: return "read the ACL of " + root_;
    case step::read_folder_rights: return "read the ACL of " + folder();
    default: return "create " + own();
  }
}

std::string own_nodes::own() const { return session_node_of(root_, session_); }

}  // namespace conch::zookeeper
