#pragma once

// Tests of what must hold over every kind of server. A new kind is one line in servers_under_test().

#include "integration/fixture.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace conch::test {

/// What not every kind of server has.
struct abilities {
  bool segments = true;       // striped_mutex
  bool operators = true;      // what an operator asks, and detached holds
  bool own_leases = true;     // each lock has a lease of its own; else one session keeps all of a client
  bool tells_of_loss = true;  // a holder learns soon that the server has forgotten it
  bool claims = true;         // a waiter that does not take its turn is passed over; else it costs its session
  bool counts = true;         // it says what it was asked, without what keeps a connection alive
};

/// What a server was asked by its clients, and what it told them unasked.
struct traffic {
  std::int64_t requests = 0;
  std::int64_t pushes = 0;
};

/// A server that keeps locks, as a test sees it from outside.
class lock_server {
 public:
  virtual ~lock_server() = default;
  virtual std::string url() const = 0;
  /// The URL of a place without such a server.
  virtual std::string url_of_none() const = 0;
  virtual bool is_taken(std::string const& name) = 0;
  virtual std::int64_t in_line(std::string const& name) = 0;

  virtual abilities can() const { return {}; }
  /// In this process, without a connection: then none of the following can be done.
  virtual bool is_here() const { return false; }
  /// The server forgets the lock's owner, and tells nobody.
  virtual void forget(std::string const&) { cannot(); }
  /// It answers nobody, and its connections stay open.
  virtual void stop() { cannot(); }
  virtual void cont() { cannot(); }
  /// It ends the connections of all clients.
  virtual void cut() { cannot(); }
  /// Clients that it would tell of a grant.
  virtual std::int64_t listening() { cannot(); }
  /// From now on: what clients ask, and what these clients (their ids) are told.
  virtual void begin_to_count(std::vector<std::string> const&) { cannot(); }
  virtual traffic counted() { cannot(); }
  /// For the rest of the test a tool listens to all channels. Answers false where the server still knows its clients.
  virtual bool is_deceived_by_a_listener() { return false; }

 private:
  [[noreturn]] static void cannot() { throw std::logic_error{"not of this kind of server"}; }
};

struct kind_of_server {
  std::string name;
  std::function<std::unique_ptr<lock_server>()> start;
};

/// Those that this program tests: each of its own.
std::vector<kind_of_server> const& servers_under_test();

inline std::ostream& operator<<(std::ostream& out, kind_of_server const& k) { return out << k.name; }

inline std::string server_name(testing::TestParamInfo<kind_of_server> const& of) { return of.param.name; }

inline config quick(lock_server const& server, std::chrono::milliseconds lease = 1500ms) {
  return quick(server.url(), lease);
}
inline config often_renewed(lock_server const& server, std::chrono::milliseconds lease = 9s) {
  return often_renewed(server.url(), lease);
}
inline config steady_config(lock_server const& server) { return steady_config(server.url()); }

inline bool is_free(lock_server& at, std::string const& name) { return !at.is_taken(name) && at.in_line(name) == 0; }
inline std::int64_t in_line(lock_server& at, std::string const& name) { return at.in_line(name); }

/// A suite of tests with one server of each kind: every test has lock names of its own. `Param`: has the kind in it, as
/// kind_of(Param).
inline kind_of_server const& kind_of(kind_of_server const& k) { return k; }
template <class Other>
kind_of_server const& kind_of(std::tuple<kind_of_server, Other> const& k) {
  return std::get<0>(k);
}

template <class Suite, class Param = kind_of_server>
class with_each_server : public testing::TestWithParam<Param> {
 protected:
  static void TearDownTestSuite() { servers_.clear(); }
  void SetUp() override {
    auto& mine = servers_[kind_of(this->GetParam()).name];
    if (!mine) mine = kind_of(this->GetParam()).start();
  }

  lock_server& server() { return *servers_.at(kind_of(this->GetParam()).name); }

  world w;

 private:
  static inline std::map<std::string, std::unique_ptr<lock_server>> servers_;
};

/// In a test: it is about a connection, and this kind of server has none.
#define NEEDS_A_CONNECTION() \
  if (server().is_here()) GTEST_SKIP() << "there is no connection"

/// In a test: it is about something that not every kind of server has.
#define NEEDS(ability) \
  if (!server().can().ability) GTEST_SKIP() << "this kind of server has it not: " #ability

}  // namespace conch::test
