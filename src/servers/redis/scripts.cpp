#include "servers/redis/scripts.hpp"

#include <stdexcept>
#include <string>

namespace conch::redis {

script const& find_script(std::string_view name) {
  for (auto const& candidate : all_scripts()) {
    if (candidate.name == name) {
      return candidate;
    }
  }
  throw std::out_of_range("no embedded script is named " + std::string(name));
}

}  // namespace conch::redis
