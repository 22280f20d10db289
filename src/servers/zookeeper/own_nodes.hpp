// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/messages.hpp"
#include "servers/zookeeper/names.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conch::zookeeper {

/// The nodes that every client needs: the root, a folder of the clients, and in it a node of the session, to which its
/// heartbeats write. One question after another, until they are there and no other user may change them. No I/O, no
/// clock.
class own_nodes {
 public:
  enum class step : std::uint8_t {
    authenticate,
    read_root,
    make_parent,
    make_folder,
    make_own,
    read_own_rights,
    read_root_rights,
    read_folder_rights,
    beat,
    make_own_again
  };
  struct question {
    step of;
    request what;
  };
  /// What follows from an answer.
  struct outcome {
    enum class action : std::uint8_t {
      nothing,
      ask,      // `next`
      open,     // all is there
      drop,     // the answer is invalid
      refuse,   // others may change the nodes, as `words` say
      consult,  // the server refuses: what then, the table of refusals knows
    };
    action then = action::nothing;
    question next{};
    std::string words{};  // with another action: a warning, or empty
  };

  /// Both outlive this. `root`: the folder of the locks. `secret`: "user:password"; then the nodes are for that user
  /// only.
  own_nodes(std::string const& root, std::string const& secret) : root_{root}, secret_{secret} {}

  /// A connection of this session is there.
  question begin(std::int64_t session);
  /// What another client has made meanwhile is as good.
  outcome answered(step of, reply const& r);
  /// A write without a consequence, of what this client tells others about itself.
  question beat() const { return {step::beat, set_data{own(), introduction_}}; }
  void introduce(std::string_view text) { introduction_ = text; }
  /// In words.
  std::string shown(step of) const;

  /// When the root was made, in microseconds since 2020: according to the leader that created it. With the number of a
  /// transaction it is more than any such sum of an ensemble before this one.
  std::int64_t birth() const noexcept { return birth_; }
  /// With its own user, it shows which others may change a node; that is not read from a node that is open to
  /// everybody.
  bool has_user() const noexcept { return !secret_.empty(); }
  std::vector<right> const& own_rights() const noexcept { return own_rights_; }
  access who() const noexcept { return secret_.empty() ? access::anyone : access::creator_only; }

 private:
  question read_root() const { return {step::read_root, get_data{root_, false}}; }
  outcome root_read(reply const& r);
  outcome rights_read(step of, rights const& to);
  outcome beat_refused(status what);
  outcome make_next_parent();
  outcome make_own(step of) const {
    return {outcome::action::ask, {of, create{own(), introduction_, node_kind::ephemeral, who()}}};
  }
  outcome checked(std::string const& path, rights const& to, outcome if_safe) const;
  std::string folder() const { return clients_of(root_); }
  std::string own() const;

  std::string const& root_;
  std::string const& secret_;
  std::int64_t session_ = 0;
  std::int64_t birth_ = 0;
  std::size_t parents_ = 0;  // characters of the root's path of which the nodes are made
  bool has_own_ = false;
  std::vector<right> own_rights_;  // to the node of the session
  bool logged_refused_beat_ = false;
  std::string introduction_;
};

}  // namespace conch::zookeeper
