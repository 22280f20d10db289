// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/queue_place.hpp"

#include <utility>

namespace conch::zookeeper {

queue_place::queue_place(place_checker& mine, std::string_view lock_name, engine::permit const& share,
                         std::string in_folder)
    : engine::place{lock_name, share},
      checker{mine},
      folder{std::move(in_folder)},
      asks{terms_of(permit)},
      check{this, [](queue_place& p, time_point now) { p.checker.due(p, now); }} {}

}  // namespace conch::zookeeper
