// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/standing.hpp"

#include <utility>

namespace conch::zookeeper {

standing::standing(standing_keeper& mine, std::string_view lock_name, engine::permit const& share,
                   std::string in_folder)
    : engine::place{lock_name, share},
      keeper{mine},
      folder{std::move(in_folder)},
      asks{terms_of(permit)},
      check{this, [](standing& s, time_point now) { s.keeper.due(s, now); }} {}

}  // namespace conch::zookeeper
