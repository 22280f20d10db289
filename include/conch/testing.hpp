// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/client.hpp>
#include <conch/clock.hpp>
#include <conch/hold.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

// The component conch::testing: the user's code under conch's locks in a simulated world (docs/testing.md). It is a
// static library for the programs of tests. While a world exists, the thread that made it sees virtual time and seeded
// random numbers wherever it asks for them.
namespace conch::testing {

namespace asio = boost::asio;

class world_state;

/// Which faults a world draws from its seed, and lets happen at some moments.
struct faults {
  bool pauses =
      true;  ///< A process is paused for 5 ms to 40 s: between two of its handlers, or before it uses a resource.
  bool cuts =
      true;  ///< The connections of a client break, before or after the server has acted. The client connects again.
  bool restarts = true;  ///< A server restarts with its data. It is away for 10 to 500 ms.
  bool losses = true;    ///< An operator takes a lock from its owner, who is told.
  bool data_losses =
      false;  ///< A server restarts without its data. Then two clients may hold a lock, and only fences help.
};

/// What a server has kept when it is back.
enum class data : std::uint8_t { kept, lost };

/// Does a resource refuse the fence of an earlier holder?
enum class fencing : std::uint8_t { off, on };

/// What is wrong with the code in a world.
enum class finding : std::uint8_t {
  failed,      ///< Its own check failed, or it threw an exception.
  late_write,  ///< A resource took a write of a hold that had ended.
  deadlock,    ///< It has not ended, and nothing can run any more, or the limit of time is reached.
  leak,        ///< It has ended, and a client that still exists has a lock at a server.
};
/// As in a report: "late write".
std::string_view to_string(finding kind) noexcept;

/// Thrown by world::run and world::expect.
class violation : public std::runtime_error {
 public:
  violation(finding kind, std::string const& words) : std::runtime_error{words}, kind_{kind} {}  ///< Made by a world.
  finding kind() const noexcept { return kind_; }  ///< What is wrong; what() has the details.

 private:
  finding kind_;
};

/// What a lock guards: a number that outlives the processes, as a row of a database does. Each access names the fence
/// of the hold under which it is made (hold::fence()), of a lock with one owner: mutex, reentrant_mutex, multi_lock,
/// with_lock.
///
/// The world reports a late write: one that was taken although the hold had ended at the server, or another holder had
/// been granted the lock. A process can be paused between any check and its write, so a resource with fencing::off
/// always has a seed with a late write. One with fencing::on refuses a write that comes after an access with a greater
/// fence, and takes all others: what no later holder has seen may still change.
///
/// Thread safety: as the world. An access does not suspend; the process may be paused before it (faults::pauses).
class resource {
 public:
  std::int64_t read(std::int64_t fence);  ///< The number. 0 at first. It remembers the fence.
  /// True: it has the value now. False: refused, for an access with a greater fence came first (fencing::on).
  [[nodiscard]] bool write(std::int64_t fence, std::int64_t value);
  std::int64_t value() const noexcept { return value_; }     ///< The number, for checks: not an access.
  void set(std::int64_t value) noexcept { value_ = value; }  ///< The number, for the beginning: not an access.

  resource(world_state& w, std::string lock, fencing f);  ///< Made by world::resource.
  resource(resource const&) = delete;
  resource& operator=(resource const&) = delete;

 private:
  world_state& world_;
  std::string lock_;
  fencing fencing_;
  std::int64_t value_ = 0, greatest_ = 0;
};

/// The settings of a world.
struct world_settings {
  std::optional<faults> drawn = std::nullopt;  ///< None: nothing happens but what the test asks for.
  duration limit =
      std::chrono::hours{1};  ///< Bodies that have not ended after this virtual time are in a deadlock. More than 0.
  bool traces = true;         ///< False: trace() is empty, and the world is faster.
};

/// A world of processes and servers in virtual time, in one thread. Each process has an execution context of its own,
/// an asio::io_context; timers, posts, channels and coroutines of the user work in it. When nothing can run, the time
/// jumps to what happens next. The seed decides all that is left to chance: in which order processes run, how long
/// messages take, and which faults happen when. The same seed and the same code give the same trace.
///
/// Clients are real; servers are simulated, over a network that delays and breaks. A client that this thread makes
/// reaches them by any URL: the URL and the settings are checked as outside of a world, and refused with the same
/// errors. A server's name is the host:port of its URL, such as "cache:6379" of redis://cache; two spellings are one
/// server, and two databases of one share no locks. redlock:// has several, which vote. An ensemble of ZooKeeper and a
/// Cluster are one server, with the first name in the alphabet; behind Sentinels there is one with the name of the
/// master; memory://x and unix:///x have the URL as name. ZooKeeper ends holds with the session of their client; the
/// others follow the rules that memory:// follows. Users are simulated for ZooKeeper alone; passwords, certificates,
/// failovers and slots are not simulated. config::sync_replicas is refused with errc::not_supported.
///
/// Sockets, files and threads of the user are outside of the world: it does not wait for them.
///
/// Lifetimes: clients and locks of a world end before it, or with a body that it destroys.
/// Thread safety: all of it is for the thread that made it. A thread has one world at a time.
class world {
 public:
  /// Throws std::logic_error: the thread has a world already; or the program is linked so that its clocks cannot be
  /// replaced.
  explicit world(std::uint64_t seed, world_settings const& settings = {});
  /// Destroys bodies that have not ended.
  ~world();
  world(world const&) = delete;
  world& operator=(world const&) = delete;

  std::uint64_t seed() const noexcept;  ///< That it was made with.

  /// The executor of a process, which is made when it is first named.
  asio::any_io_executor executor(std::string_view process = "main");
  /// The URL of a server that only exists in a world, which is made when a client first needs it: for conch::client,
  /// and for quorum_config::servers. `server`: letters, digits and '-'.
  std::string url(std::string_view server = "redis");
  /// What the lock of that name guards. Made when it is first named; `f` counts then.
  testing::resource& resource(std::string_view lock, fencing f = fencing::off);

  /// Starts a body: an asio::awaitable<void>, or a function that returns one and lives until it has ended.
  template <class Body>
  void spawn(std::string_view process, Body&& body) {
    asio::co_spawn(executor(process), std::forward<Body>(body), begin_body(process));
  }
  /// Runs the world until all bodies have ended, and then for up to 10 s until no lock is left at a server. Then no
  /// more faults are drawn. Throws violation, with the seed; the exception that a body threw, or a check.
  void run();
  /// The same, with this body in the process "main".
  template <class Body>
  void run(Body&& body) {
    spawn("main", std::forward<Body>(body));
    run();
  }

  // ---- for bodies
  /// Throws violation (finding::failed) with these words if `ok` is false.
  void expect(bool ok, std::string_view words);
  /// Is called when all bodies have ended: for checks of what has come of them.
  void at_end(std::function<void()> check);
  /// A line in the trace, of the process that runs.
  void note(std::string_view words);
  /// A number from 0 to n - 1, from the seed: for what a body leaves to chance. `n`: at least 1.
  std::uint64_t random(std::uint64_t n);
  duration now() const noexcept;  ///< Since the world began.

  // ---- faults by name
  /// The process that runs is paused here, between two statements, while all others go on: its timers are late, its
  /// leases end. Throws std::logic_error outside of a process.
  void pause(duration length);
  /// That process runs no handler for so long.
  void pause(std::string_view process, duration length);
  /// The connections of the client break. It connects again.
  void cut(client const& c);
  /// An operator takes the lock away (`conch force`; of ZooKeeper, deletes the node). The holder is told, if it is
  /// connected; by ZooKeeper, once the hold has been renewed. False: it was not the owner at any server.
  bool lose(hold const& h);
  /// Breaks the connections of a server, which is back after 10 to 500 ms. `server`: as of url(), or "host:port".
  /// Throws std::logic_error, with the names that there are: no client has such a server.
  void restart(std::string_view server = "redis", data d = data::kept);

  /// What has happened, one line each: time, process, event. The last 2,000 lines.
  std::string trace() const;

 private:
  std::function<void(std::exception_ptr)> begin_body(std::string_view process);

  std::unique_ptr<world_state> state_;
};

/// How explore() goes about it.
struct exploration {
  std::uint64_t first_seed = 1;            ///< The others follow it.
  faults drawn{};                          ///< Which faults happen.
  duration limit = std::chrono::hours{1};  ///< As world_settings::limit.
};

/// What explore() has found.
struct report {
  std::uint64_t schedules = 0;                       ///< How many worlds were run.
  std::optional<std::uint64_t> seed = std::nullopt;  ///< The first in which something is wrong. None: there was none.
  finding kind = finding::failed;                    ///< What is wrong there,
  std::string what{};                                ///< in words,
  std::string trace{};                               ///< and what led to it: world::trace().

  explicit operator bool() const noexcept { return !seed; }  ///< Nothing is wrong.
};
/// All of it, as the message of a failed test.
std::ostream& operator<<(std::ostream& to, report const& r);

/// Runs the body in a new world for each of `schedules` seeds, and stops at the first in which something is wrong. It
/// runs that seed a second time, for the trace.
///
/// `body`: its process is "main". It may start others with world::spawn. What it captures is used again by each world,
/// so it has to make its clients, locks and results anew. Errors: all are in the report, also exceptions of the body.
/// Throws std::logic_error as the constructor of a world.
report explore(std::uint64_t schedules, std::function<asio::awaitable<void>(world&)> const& body,
               exploration const& how = {});

}  // namespace conch::testing
