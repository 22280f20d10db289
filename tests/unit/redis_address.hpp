#pragma once

#include "servers/redis/url.hpp"

#include <string>
#include <utility>

namespace conch::redis {

inline address server_with(std::string user, std::string password, int database = 0) {
  address a;
  a.host = "a";
  a.user = std::move(user);
  a.password = std::move(password);
  a.database = database;
  return a;
}

}  // namespace conch::redis
