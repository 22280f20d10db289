// A connection of a simulated process: the real state machine over a simulated stream. What
// src/servers/redis/connection does with Asio, this does with the simulated network; streams here may also take what is
// written in parts, or late, as TLS does.
#pragma once

#include "servers/redis/connection_fsm.hpp"
#include "sim/worlds/plan.hpp"
#include "sim/worlds/random.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::sim {

/// Credentials in these worlds have a number, and each is given once. A server sees it in HELLO and AUTH.
std::optional<std::int64_t> number_of_credentials(std::span<std::string_view const> command);

/// For config::credentials_provider: a connection of these worlds draws its credentials itself.
void take_credentials(config& c);

class sim_connection {
 public:
  // The process, and what it has for the network.
  class shell {
   public:
    // In a turn of the process, unless that has ended.
    virtual void later(nanos delay, std::function<void(time_point)> what) = 0;
    // Until the process' clock shows it, and its timer has gone off.
    virtual nanos until(time_point t) = 0;
    // Ends in opened() or ended().
    virtual void open(sim_connection& c) = 0;
    virtual void write(sim_connection& c, std::string bytes) = 0;
    virtual void hang_up(sim_connection& c) = 0;
    virtual void note(sim_connection& c, log_level level, std::string_view words) = 0;

   protected:
    ~shell() = default;
  };

  struct habits {
    int tears = 0;             // reads that get less than what is there, in a hundred
    bool in_turns = true;      // what is to be written at once is
    nanos slowest_write = 0;   // 0: the stream takes all at once
    int dead_addresses = 0;    // look-ups that find one that nobody is at, in a hundred
    int silent_addresses = 0;  // of these look-ups, in a hundred: one of those addresses says nothing
    int hanging_lookups = 0;   // look-ups that say nothing, in a hundred
  };

  sim_connection(shell& of, config const& settings, std::string const& client_id, std::uint64_t seed, habits h,
                 redis::connection_fsm::roles r = {});

  void report_to(protocol::wire_events& e) { fsm_.report_to(e); }

  // ---- from the protocol
  void send(protocol::command const& c);
  void want();
  bool is_up() const { return fsm_.life().is_up(); }
  // False: it is to be dropped already.
  bool drop(std::string_view why);
  // The locator has another answer.
  void moved();
  // For a dialogue.
  void say(std::string_view bytes);
  redis::address const& where() const { return fsm_.where(); }

  // ---- from the process, in a turn of it
  // When nobody in it has anything left to do. False: there was nothing to write.
  bool end_of_turn();
  void opened(time_point now);
  // The other end is gone, or was never there.
  void ended(std::string_view why, time_point now);
  void arrived(std::string_view bytes, time_point now);

 private:
  template <class F>
  void input(time_point now, F const& what);
  void carry_out(time_point now);
  void look_up(time_point now);
  void dial();
  void pauses(duration length, time_point now);
  void given_up(time_point now);
  void write_at_most(nanos left);
  void take_in(time_point now);
  // Credentials.
  void give_credentials(time_point now);
  void give_while_busy(time_point now);
  void give_new_credentials(time_point now);
  void renewals_are_due(duration within, std::string_view words, time_point now);
  void credentials_checked(time_point now);
  void written_with_credentials();

  shell& shell_;
  config const& settings_;
  redis::connection_fsm fsm_;
  random_source random_;
  habits const habits_;
  bool const located_;                        // the server may be elsewhere each time
  std::uint64_t generation_ = 0, sleep_ = 0;  // of the stream, and of the timer
  std::vector<std::string> found_;            // the addresses
  std::size_t alive_ = 0, silent_ = 0;        // the one with a server; a silent one, or alive_
  std::size_t tried_ = 0;                     // in this attempt
  bool tried_alive_ = false;
  bool met_silence_ = false;  // this attempt, of an address or of a look-up
  bool was_silent_ = false;   // an attempt since the last connection
  time_point attempt_began_{};
  bool open_ = false, reading_ = false, flush_due_ = false;
  bool was_refused_ = false;                   // just now
  duration shortest_lease_ = duration::max();  // that was ever asked for
  int failures_ = 0;                           // of attempts, in a row
  time_point up_since_{};                      // of this connection; never: it is not up
  std::string unread_, under_way_, end_;       // end_: why, once all is read
  std::size_t read_ = 0;                       // of unread_

  // Credentials: of a source of their own, so that what is drawn of them moves nothing else.
  random_source credentials_;
  bool const talks_;            // and renews none
  std::int64_t given_ = 0;      // how many so far
  std::string password_;        // the last
  duration good_for_{};         // these
  bool shown_ = true;           // they are written
  std::uint64_t asked_ = 0;     // how often the provider was
  std::uint64_t watch_ = 0;     // for what is due
  std::uint64_t answered_ = 0;  // how often a server has answered a renewal, or the provider has not
  std::uint64_t failed_ = 0;    // of these
  bool was_up_ = false;
  enum class giving : std::uint8_t { nothing, behind_a_write, before_a_write } gives_ = giving::nothing;
  time_point asked_at_{};
  int sent_ = 0, gives_with_ = 1;  // commands in this turn; how many must be there
};

}  // namespace conch::sim
