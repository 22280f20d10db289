// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/siblings.hpp"

#include <conch/clock.hpp>

#include <string_view>

namespace conch::protocol {

using namespace engine;

/// Which locks are with this server, and which servers have the others.
class my_slots {
 public:
  /// `others`: none, if this is the only server.
  my_slots(siblings* others, neighbour& self) noexcept : others_{others}, self_{self} {}

  /// Are there other servers, of which each has some of the locks?
  bool is_cluster() const noexcept { return others_ != nullptr; }
  bool has(server_place const& p) const;
  bool has(std::string_view name) const { return others_ == nullptr || &others_->keeper(name) == &self_; }
  neighbour& at(unsigned slot) const { return others_ != nullptr ? others_->keeper(slot) : self_; }
  neighbour& at(std::string_view name) const { return others_ != nullptr ? others_->keeper(name) : self_; }
  /// Only in a Cluster.
  unsigned slot_of(std::string_view name) const { return others_->slot_of(name); }
  /// Only in a Cluster.
  bool renewed_elsewhere(siblings::put_off const& what, std::string_view words, time_point now) const {
    return others_->renewed_elsewhere(self_, what, words, now);
  }

 private:
  siblings* others_;
  neighbour& self_;
};

}  // namespace conch::protocol
