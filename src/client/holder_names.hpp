// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/acquisition.hpp"

#include <conch/clock.hpp>
#include <conch/named_lock.hpp>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace conch::detail {

/// The holders of the locks that acquires of this client are about to give up waiting for. All that wait for a lock
/// share one question, and a client asks for a limited number of locks within a second. With the client locked.
class holder_names final : public engine::holder_source {
 public:
  explicit holder_names(std::function<void(std::string const& lock)> ask) : ask_{std::move(ask)} {}

  void ask(std::string_view lock, time_point now) override;
  std::string holder_of(std::string_view lock, time_point now) const override;
  void answered(std::string_view lock, std::string words);

 private:
  struct answer {
    time_point asked_at;
    std::string words;  // empty: there is no answer yet, or the lock is free
  };

  std::function<void(std::string const& lock)> const ask_;
  std::map<std::string, answer, std::less<>> recent_;  // by lock
};

/// Asks for the holder of the lock. `handler` runs on any thread, and gets its name for people: empty if the lock is
/// free, or if the server does not know it.
void ask_who_has(settings_ptr lock, std::function<void(std::string words)> handler);

}  // namespace conch::detail
