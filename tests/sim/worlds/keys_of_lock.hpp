// Where the keys of a lock are: at the server that decides about it. While its slot moves key by key, some are at its
// next one already.
#pragma once

#include "sim/model/redis_model.hpp"

#include <string_view>

namespace conch::sim {

struct keys_of_lock {
  redis_model& here;
  redis_model* there;  // null: its slot does not move

  redis_model const& with(std::string_view key) const {
    return there != nullptr && here.peek(key).is(value::kind::nil) ? *there : here;
  }
};

}  // namespace conch::sim
