#pragma once

// The locks with several owners, each set up so that one holder keeps all others out. What then holds for a mutex must
// hold for all of them.

#include "integration/fixture.hpp"

#include <functional>
#include <memory>
#include <ostream>
#include <string>

namespace conch::test {

using told = asio::any_completion_handler<void(error_code, hold)>;

struct kind_of_lock {
  std::string name;  // as conch-lock-holder knows it
  std::function<void(client&, std::string const&, lock_options, acquire_options, bool once, told)> start;

  template <class Token>
  auto acquire(client& c, std::string name_of_lock, acquire_options wait, lock_options options, Token&& token) const {
    return asio::async_initiate<Token, void(error_code, hold)>(
        [](auto handler, kind_of_lock const* self, client* at, std::string what, acquire_options w, lock_options o) {
          self->start(*at, what, o, w, false, std::move(handler));
        },
        token, this, &c, std::move(name_of_lock), wait, options);
  }

  asio::awaitable<hold> acquire(client& c, std::string name_of_lock, lock_options options = {}) const {
    return acquire(c, std::move(name_of_lock), acquire_options{}, options, asio::use_awaitable);
  }

  asio::awaitable<hold> try_acquire(client& c, std::string name_of_lock) const {
    return asio::async_initiate<asio::use_awaitable_t<> const, void(error_code, hold)>(
        [](auto handler, kind_of_lock const* self, client* at, std::string what) {
          self->start(*at, what, {}, {}, true, std::move(handler));
        },
        asio::use_awaitable, this, &c, std::move(name_of_lock));
  }
};

inline std::ostream& operator<<(std::ostream& out, kind_of_lock const& k) { return out << k.name; }

std::vector<kind_of_lock> const& kinds_of_locks();
/// The mutex, and those of kinds_of_locks.
std::vector<kind_of_lock> every_kind();

/// A suite of tests of one kind of lock after the other.
template <class Suite>
class with_each_kind : public with_server<Suite, testing::TestWithParam<kind_of_lock>> {
 protected:
  kind_of_lock const& kind() { return this->GetParam(); }
  std::string name(std::string const& what) { return kind().name + " " + what; }
  /// How conch-lock-holder is told of it.
  std::string childs(std::string const& what) {
    return kind().name == "mutex" ? name(what) : "@" + kind().name + "/" + name(what);
  }
};

inline std::string kind_name(testing::TestParamInfo<kind_of_lock> const& of) { return of.param.name; }

}  // namespace conch::test
