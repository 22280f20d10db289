// says: completion_token_for
#include <conch/conch.hpp>

void f(conch::mutex& m) {
  m.async_acquire({.wait = std::chrono::seconds{2}}, [](int) {});
}
